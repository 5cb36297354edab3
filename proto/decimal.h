// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers on the command lines of the server and of `warpfold`, which are decimal: CLI11 takes "010" for 8,
// as C does.
#pragma once

#include <algorithm>
#include <string>

namespace warpfold {

// The text of a number without the zeros before its first other digit. Any other text is left as it is.
inline std::string WithoutLeadingZeros(std::string text) {
  const std::size_t first = text.find_first_not_of("+-");
  if (first == std::string::npos || first > 1) return text;
  const std::size_t digits = std::min(text.find_first_not_of('0', first), text.size() - 1);
  const bool is_decimal = text.find_first_not_of("0123456789", first) == std::string::npos;
  return is_decimal ? text.erase(first, digits - first) : text;
}

// For an application of CLI11 (a template, so that only who uses it needs that library), after its options
// have been added: those whose value is a whole number take decimal ones.
template <class App, class Validator>
void ReadNumbersAsDecimal(App& app) {
  for (auto* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (!type.starts_with("INT") && !type.starts_with("UINT")) continue;
    const auto strip = [](std::string& text) {
      text = WithoutLeadingZeros(std::move(text));
      return std::string();
    };
    option->transform(Validator(strip, ""));
  }
}

}  // namespace warpfold
