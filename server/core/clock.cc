// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace warpfold::server {

Clock MonotonicClock() {
  return [start = absl::Now(), steady_start = std::chrono::steady_clock::now()] {
    return start + absl::FromChrono(std::chrono::steady_clock::now() - steady_start);
  };
}

absl::Time DeadlineOn(const Clock& clock, const Clock& wall_clock, absl::Time deadline) {
  return clock() + (deadline - wall_clock());
}

}  // namespace warpfold::server
