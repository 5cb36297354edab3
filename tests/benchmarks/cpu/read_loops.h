// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The best that the memory gives to a CPU: loops that load everything with the widest available loads, fold
// it with exclusive or, and write nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warpfold::benchmarks {

// The fold of `bytes` at `data`, a multiple of kReadStepBytes.
using ReadLoop = std::uint64_t (*)(const std::byte* data, std::size_t bytes);
inline constexpr std::size_t kReadStepBytes = 1024;

// Variants that run on this machine: which is the fastest depends on its caches and prefetchers.
std::vector<ReadLoop> ReadLoops();

}  // namespace warpfold::benchmarks
