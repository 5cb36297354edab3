// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the core takes the time from: MonotonicClock in the service, a variable in tests.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace warpfold::server {

// May be called from any thread.
using Clock = std::function<absl::Time()>;

// The time of day when this is called, which then advances as steadily as the machine's monotonic clock.
Clock MonotonicClock();

// Converts `deadline`, a time of `wall_clock`, to a time of `clock`. Call this when the deadline arrives: the
// wall clock may be set later, and may then differ from `clock` by any amount.
absl::Time DeadlineOn(const Clock& clock, const Clock& wall_clock, absl::Time deadline);

}  // namespace warpfold::server
