// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long something has lasted, counted from call to call. The time between two calls counts as kLongestGap
// at most: a process that was suspended must not mistake its own absence for that of a device or client.
#pragma once

#include <algorithm>
#include <optional>

#include "absl/time/time.h"

namespace warpfold::server {

// Threads: one at a time.
class WatchedTime {
 public:
  static constexpr absl::Duration kLongestGap = absl::Seconds(1);

  // Counts the time since the last call, or the given part of it, and returns all that has been counted. The
  // first call counts nothing, and neither does one with an earlier time than the last.
  absl::Duration Advance(absl::Time now, int divisor = 1) {
    const absl::Time last = last_.value_or(now);
    total_ += std::clamp(now - last, absl::ZeroDuration(), kLongestGap) / divisor;
    last_ = std::max(now, last);
    return total_;
  }

 private:
  std::optional<absl::Time> last_;
  absl::Duration total_;
};

}  // namespace warpfold::server
