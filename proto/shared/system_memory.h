// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may still take. Asked for more, the kernel takes pages until none are left,
// and then ends processes, whoever owns them: the server asks before it takes its slots, and the client
// before it makes memory to share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace warpfold {

// What the system says that a process may take without others' being moved out (proc(5): MemAvailable), or
// what is left of the limits of its control groups where that is less. All that can be counted where the
// system does not say. `proc` and `sys` stand for /proc and /sys in tests.
std::uint64_t AvailableMemory(const std::string& proc = "/proc", const std::string& sys = "/sys");

// The least limit on memory of the control groups that the process is in; nothing without one. Version 2
// or 1.
std::optional<std::uint64_t> ControlGroupLimit(const std::string& proc = "/proc",
                                               const std::string& sys = "/sys");

}  // namespace warpfold
