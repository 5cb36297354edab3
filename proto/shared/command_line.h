// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the command lines of the server and of `warpfold` do otherwise than CLI11: numbers are decimal, where
// it takes "010" for 8, as C does.
#pragma once

#include <algorithm>
#include <string>

namespace warpfold {

// Whether the text is digits alone, behind one sign at most.
inline bool IsDecimal(const std::string& text) {
  const std::size_t first = text.find_first_not_of("+-");
  return first <= 1 && text.find_first_not_of("0123456789", first) == std::string::npos;
}

// The text of a number without the zeros before its first other digit. Any other text is left as it is.
inline std::string WithoutLeadingZeros(std::string text) {
  if (!IsDecimal(text)) return text;
  const std::size_t first = text.find_first_not_of("+-");
  const std::size_t digits = std::min(text.find_first_not_of('0', first), text.size() - 1);
  return text.erase(first, digits - first);
}

// For an application of CLI11 (a template, so that only who uses it needs that library), after its options
// have been added: those whose value is a whole number take decimal ones, and nothing else.
template <class App, class Validator>
void ReadNumbersAsDecimal(App& app) {
  for (auto* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (!type.starts_with("INT") && !type.starts_with("UINT")) continue;
    const auto read = [](std::string& text) {
      if (!IsDecimal(text)) return "'" + text + "' is not a whole number";
      text = WithoutLeadingZeros(std::move(text));
      return std::string();
    };
    option->transform(Validator(read, ""));
  }
}

inline constexpr char kGivenMoreThanOnce[] = ": given more than once";

// What CLI11 complains of, in better words where an option that takes one value was given several times.
inline std::string InPlainerWords(const std::string& complaint) {
  const std::size_t counts = complaint.find(": At Most 1 required but received ");
  return counts == std::string::npos ? complaint : complaint.substr(0, counts) + kGivenMoreThanOnce;
}

}  // namespace warpfold
