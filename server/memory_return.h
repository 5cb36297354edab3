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

  // To be called often. Every five seconds, while the process has more than a quarter beyond what it had at
  // first, frees what it can: once a minute while the process is busy, less and less often where that does
  // not help. Beyond half of the most, at once and again and again: each thread has an arena of its
  // own, and a client that comes by one thread after the other would leave the most in each.
  void Look(absl::Time now);

 private:
  bool IsQuiet();
  void ReturnAtOnce(absl::Time now);

  const std::uint64_t enough_bytes_;
  const std::uint64_t much_bytes_;
  absl::Time next_look_;
  absl::Time last_return_;
  absl::Duration pause_;     // before the next one, while the process is quiet
  absl::Duration cpu_time_;  // at the last look
  bool is_eager_ = false;    // the allocator keeps nothing
};

}  // namespace warpfold::server
