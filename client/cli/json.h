// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// JSON as the command line writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace warpfold::cli {

// The value on one line, in ASCII only: control characters beyond it must not control a terminal. A text that
// is not UTF-8, which a device's name need not be, gets U+FFFD in place of invalid bytes. Json:
// nlohmann::json or nlohmann::ordered_json.
template <typename Json>
std::string AsciiJson(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace warpfold::cli
