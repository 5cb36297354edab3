// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/admin/exposition.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace warpfold::server {
namespace {

// The shortest text that reads back as the same number.
std::string TextOf(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

}  // namespace

void Exposition::Family(absl::string_view name, absl::string_view type, absl::string_view help) {
  name_ = std::string(name);
  const std::string escaped = absl::StrReplaceAll(help, {{"\\", "\\\\"}, {"\n", "\\n"}});
  absl::StrAppend(&text_, "# HELP ", name, " ", escaped, "\n# TYPE ", name, " ", type, "\n");
}

void Exposition::Sample(const Labels& labels, double value, absl::string_view suffix) {
  Line(labels, suffix, TextOf(value));
}

void Exposition::Sample(const Labels& labels, std::uint64_t value, absl::string_view suffix) {
  Line(labels, suffix, absl::StrCat(value));
}

void Exposition::Line(const Labels& labels, absl::string_view suffix, absl::string_view value) {
  absl::StrAppend(&text_, name_, suffix);
  absl::string_view before = "{";
  for (const auto& [name, text] : labels) {
    const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\n", "\\n"}, {"\"", "\\\""}});
    absl::StrAppend(&text_, before, name, "=\"", escaped, "\"");
    before = ",";
  }
  absl::StrAppend(&text_, labels.empty() ? " " : "} ", value, "\n");
}

void Exposition::Gauge(absl::string_view name, absl::string_view help, double value) {
  Family(name, "gauge", help);
  Sample({}, value);
}

void Exposition::Gauge(absl::string_view name, absl::string_view help, std::uint64_t value) {
  Family(name, "gauge", help);
  Sample({}, value);
}

void Exposition::Counter(absl::string_view name, absl::string_view help, double value) {
  Family(name, "counter", help);
  Sample({}, value);
}

void Exposition::Counter(absl::string_view name, absl::string_view help, std::uint64_t value) {
  Family(name, "counter", help);
  Sample({}, value);
}

}  // namespace warpfold::server
