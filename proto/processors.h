// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// For how many processors this process has work to cut. In a container these are often fewer than the machine
// has: threads for all of them would only wait for one another.
#pragma once

#include <string>

namespace warpfold {

// On how many processors this thread may run (sched_getaffinity(2)), or how many the control groups of the
// process grant it the time of (cpu.max, version 1: cpu.cfs_quota_us), rounded up, where that is less. At
// least
// 1. `proc` and `sys` stand for /proc and /sys in tests.
int ProcessorCount(const std::string& proc = "/proc", const std::string& sys = "/sys");

}  // namespace warpfold
