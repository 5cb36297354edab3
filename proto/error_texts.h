// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Texts of errors that both sides write: the server for an array, and the client for one of many segments, of
// which the server sends only the reason.
#pragma once

#include <string>

namespace warpfold {

// This is the text of EMPTY_ARRAY.
inline std::string TextOfNoValue(const std::string& op) { return op + " of no elements has no value"; }
// This is the text of OVERFLOW.
inline std::string TextOfOverflow(const std::string& op) {
  return op + ": the exact value does not fit 64 bits";
}

}  // namespace warpfold
