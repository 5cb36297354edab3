// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/allow_list.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

constexpr absl::string_view kEverything = "*";

// Whether a caller could ever have this identity: a rule for an impossible one would be a mistake that nobody
// notices.
bool IsIdentity(absl::string_view text) {
  if (text == kAnonymous || text == kEverything) return true;
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isgraph)) return false;
  if (absl::ConsumePrefix(&text, "uid:")) {
    std::uint32_t user = 0;
    return absl::SimpleAtoi(text, &user) && absl::StrCat(user) == text;
  }
  if (absl::ConsumePrefix(&text, "dns:")) return !text.empty() && absl::AsciiStrToLower(text) == text;
  return absl::ConsumePrefix(&text, "spiffe://") && !text.empty();
}

}  // namespace

absl::StatusOr<AllowList> AllowList::Parse(absl::string_view text) {
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the list has more than ", kMaxBytes, " bytes"));
  }
  AllowList list;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view rule = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (rule.empty()) continue;
    if (const absl::Status status = list.AddRule(rule); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", status.message()));
    }
  }
  if (list.of_identities_.empty() && list.of_everybody_.none()) {
    return absl::InvalidArgumentError("the list allows nothing to anybody");
  }
  return list;
}

absl::Status AllowList::AddRule(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (!IsIdentity(words[0])) {
    return absl::InvalidArgumentError(
        "the identity must be spiffe://..., dns:NAME in lower case, uid:NUMBER, anonymous or *");
  }
  if (words.size() == 1) return absl::InvalidArgumentError("no methods follow the identity");
  Methods methods;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    const Method method = MethodNamed(*word);
    if (*word == kEverything) {
      methods.set();
    } else if (method == Method::kUnknown) {
      return absl::InvalidArgumentError(
          absl::StrCat("word ", word - words.begin() + 1, " is not the name of a method"));
    } else {
      methods.set(static_cast<std::size_t>(method));
    }
  }
  const bool has_asterisk = words[0] != kEverything && absl::StrContains(words[0], '*');
  if (has_asterisk && literal_asterisk_.empty()) literal_asterisk_ = std::string(words[0]);
  (words[0] == kEverything ? of_everybody_ : of_identities_[std::string(words[0])]) |= methods;
  return absl::OkStatus();
}

bool AllowList::Allows(const std::string& identity, Method method) const {
  if (method == Method::kUnknown) return false;
  const auto bit = static_cast<std::size_t>(method);
  if (of_everybody_[bit]) return true;
  const auto found = of_identities_.find(identity);
  return found != of_identities_.end() && found->second[bit];
}

void Access::SetList(AllowList list) {
  auto shared = std::make_shared<const AllowList>(std::move(list));
  const std::lock_guard lock(mutex_);
  list_ = std::move(shared);
}

absl::Status Access::Check(const std::string& identity, Method method) const {
  std::shared_ptr<const AllowList> list;
  {
    const std::lock_guard lock(mutex_);
    list = list_;
  }
  if (list == nullptr || list->Allows(identity, method)) return absl::OkStatus();
  return kernels::Error(absl::StatusCode::kPermissionDenied, reason::kNotAllowed,
                        absl::StrCat("this server does not allow the caller the method ", NameOf(method)));
}

}  // namespace warpfold::server
