// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long a thread stays awake while it waits for the value of an array that is in a GPU's memory: the
// caller's thread, which waits for the response, and the server's, which waits for the kernel. A thread that
// sleeps wakes up late, by 0.1 ms and more on a virtual machine (docs/adr/0139).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace warpfold {

// 3 ms, and the time that a kernel takes that reads the array at 2 TB/s, less than half of an H200's speed;
// but never more than 50 ms, since the device may be slower, or work for others.
constexpr std::chrono::nanoseconds TimeAwake(std::uint64_t array_bytes) {
  constexpr std::chrono::nanoseconds kLeast = std::chrono::milliseconds(3);
  constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(50);
  constexpr std::uint64_t kBytesPerNanosecond = 2000;
  const auto reads_until = static_cast<std::int64_t>(array_bytes / kBytesPerNanosecond);
  return std::min(kLeast + std::chrono::nanoseconds(reads_until), kMost);
}

}  // namespace warpfold
