// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Times that nobody can set. Somebody who corrects the time of day, a time server or a virtual machine that
// resumes, must not end calls, nor make waits longer (docs/adr/0140).
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace warpfold {

// The time of day when the process asked first, which then advances as steadily as the machine's monotonic
// clock. Compare it with times of this clock only. May be called from any thread.
absl::Time SteadyNow();

// The same moment by the system's clock, for gRPC's waits and deadlines: gRPC measures at once how far away
// it is. absl::Now() would not do, since it notices some two seconds late that the system's clock was set.
std::chrono::system_clock::time_point ToSystemTime(absl::Time steady);

}  // namespace warpfold
