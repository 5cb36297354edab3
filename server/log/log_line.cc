// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/log/log_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace warpfold::server {
namespace {

// Backslashes are not: they would make an escaped text look like another one.
bool IsPlain(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '\\';
  });
}

std::string Word(absl::string_view text) {
  return IsPlain(text) ? std::string(text) : absl::StrCat("\"", absl::CHexEscape(text), "\"");
}

// A whole sentence needs no quotes, and so its own quotes are not escaped, but it must stay on its line.
std::string Sentence(absl::string_view text) {
  return absl::StrReplaceAll(absl::CHexEscape(text), {{"\\'", "'"}, {"\\\"", "\""}});
}

struct PlainValue {
  std::string operator()(const std::string& text) const { return Word(text); }
  std::string operator()(const std::vector<std::string>& texts) const {
    return Word(absl::StrJoin(texts, ","));
  }
  std::string operator()(std::uint64_t number) const { return absl::StrCat(number); }
  std::string operator()(double number) const { return absl::StrCat(number); }
};

std::string JsonText(const std::string& text) {
  // Most texts need no escapes, and a line is made for every call.
  if (text.empty() || IsPlain(text)) return absl::StrCat("\"", text, "\"");
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

struct JsonValue {
  std::string operator()(const std::string& text) const { return JsonText(text); }
  std::string operator()(const std::vector<std::string>& texts) const {
    const auto append = [](std::string* out, const std::string& text) { out->append(JsonText(text)); };
    return absl::StrCat("[", absl::StrJoin(texts, ",", append), "]");
  }
  std::string operator()(std::uint64_t number) const { return absl::StrCat(number); }
  // Durations are finite: JSON has no other numbers.
  std::string operator()(double number) const { return absl::StrCat(number); }
};

}  // namespace

std::string JsonMembers(const LogFields& fields) {
  std::string members;
  for (const auto& [name, value] : fields) {
    absl::StrAppend(&members, members.empty() ? "\"" : ",\"", name, "\":", std::visit(JsonValue(), value));
  }
  return members;
}

std::string PlainText(const LogFields& fields) {
  std::string text;
  std::string message;
  for (const auto& [name, value] : fields) {
    const absl::string_view field = name;
    if (field == "message") {
      message = Sentence(std::get<std::string>(value));
      continue;
    }
    if (!text.empty()) absl::StrAppend(&text, " ");
    if (field != "method" && field != "status") absl::StrAppend(&text, field, "=");
    absl::StrAppend(&text, std::visit(PlainValue(), value));
  }
  if (message.empty()) return text;
  return text.empty() ? message : absl::StrCat(text, ": ", message);
}

}  // namespace warpfold::server
