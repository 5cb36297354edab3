// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Texts that clients send along and servers log. Both sides check them by these rules, clients before they
// send anything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace warpfold {

// A request id, or the owner of a kept array, is no longer than this.
inline constexpr std::size_t kMaxTextBytes = 128;

// A tracestate is no longer than this. The standard (W3C Trace Context, 3.3.1.5) asks everybody to pass on
// this many bytes, and lets them drop a longer one.
inline constexpr std::size_t kMaxTracestateBytes = 512;

// Whether the text is at most `most` bytes of printable ASCII.
inline bool IsText(std::string_view text, std::size_t most) {
  return text.size() <= most &&
         std::all_of(text.begin(), text.end(), [](char c) { return ' ' <= c && c <= '~'; });
}

}  // namespace warpfold
