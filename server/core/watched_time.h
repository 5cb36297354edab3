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

  // Counts the time since the last call, and returns all of it. The first call counts nothing.
  absl::Duration Advance(absl::Time now) {
    if (last_.has_value()) total_ += std::clamp(now - *last_, absl::ZeroDuration(), kLongestGap);
    last_ = now;
    return total_;
  }
  // The time since the last call does not count.
  void Skip(absl::Time now) { last_ = now; }

 private:
  std::optional<absl::Time> last_;
  absl::Duration total_;
};

}  // namespace warpfold::server
