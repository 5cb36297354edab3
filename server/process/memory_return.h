// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gives freed memory back to the system when the process holds much more than at its start. The allocator is
// told to keep freed memory (TuneAllocator), because that makes the next messages faster. Without this class,
// the memory that one flood of calls took would stay with the process for ever.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace warpfold::server {

// Threads: one.
class MemoryReturn {
 public:
  // To be made when the process has all memory that it needs and starts to serve. `most_bytes`: what it may
  // hold at most (memory_budget.h).
  MemoryReturn(absl::Time now, std::uint64_t most_bytes);

  // To be called often. Where the process holds a quarter more memory of its own (what clients have
  // registered is not) than it had at first, trims what it can: after five seconds of quiet, less and less
  // often while that does not help, and once a minute while the process is busy. Above half of most_bytes it
  // trims at once, every 200 ms at most: each thread has an arena of its own, and a client that moves from
  // thread to thread would fill them all.
  void TrimIfLarge(absl::Time now);

 private:
  bool IsQuiet();
  void ReturnAtOnce(absl::Time now);

  const std::uint64_t enough_bytes_;
  const std::uint64_t much_bytes_;
  absl::Time next_check_;
  absl::Time last_return_;
  absl::Duration pause_;     // before the next one, while the process is quiet
  absl::Duration cpu_time_;  // at the last check
  bool is_eager_ = false;    // the allocator keeps nothing
};

}  // namespace warpfold::server
