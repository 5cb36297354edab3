// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many processors this process may use. In a container these are often fewer than the machine has, and
// threads for all of them would only wait for one another.
#pragma once

#include <string>

namespace warpfold {

// On how many processors this thread may run (sched_getaffinity(2)), or the time of how many the control
// groups of the process grant it, rounded up, where that is less (cpu.max; in version 1 cpu.cfs_quota_us). It
// is one at least. `proc` and `sys` stand for /proc and /sys in tests.
int ProcessorCount(const std::string& proc = "/proc", const std::string& sys = "/sys");

}  // namespace warpfold
