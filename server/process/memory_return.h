// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Gives freed memory back to the system when the process holds much more than at its start. The allocator is
// told to keep freed memory (TuneAllocator), because that makes the next messages faster. Without this class,
// the memory that one flood of calls took would stay with the process for ever.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "server/process/memory_budget.h"

namespace warpfold::server {

// How much of its own memory the process may hold before some is given back. Bytes.
struct ReturnLevels {
  std::uint64_t enough = 0;  // beyond it free memory is given back when there is time
  std::uint64_t much = 0;    // beyond it at once
};

// The limits for a process that has `at_start` bytes of its own when it begins to serve. Neither limit is a
// share of the memory that is taken at the start and stays (slots, memory to receive into, kept arrays): that
// may be most of the budget.
ReturnLevels ReturnLevelsOf(std::uint64_t at_start, const MemoryBudget& budget);

// The memory of a process and its allocator. Tests have their own.
struct ProcessMemory {
  std::function<std::uint64_t()> own_bytes;
  std::function<absl::Duration()> cpu_time;
  std::function<void()> trim;           // gives back what is free
  std::function<void(bool)> keep_free;  // whether the allocator keeps what is freed from now on
};

ProcessMemory MemoryOfThisProcess();

// Threads: one.
class MemoryReturn {
 public:
  // Construct this when the process has all the memory that it needs and starts to serve. `budget`: the most
  // that it may hold.
  MemoryReturn(absl::Time now, const MemoryBudget& budget, ProcessMemory memory = MemoryOfThisProcess());

  // Call this often. If the process holds more of its own memory (which excludes what clients have
  // registered) than is enough, a quarter more than it had at first, this trims what it can: after five
  // seconds of quiet, less and less often while that does not help, and once a minute while the process is
  // busy. If it holds much, half of what clients may make it hold, this trims at once, every 200 ms at most:
  // each thread has its own arena, and a client that moves from thread to thread would fill them all.
  void TrimIfLarge(absl::Time now);

 private:
  bool IsQuiet();
  void ReturnAtOnce(absl::Time now);

  const ProcessMemory memory_;
  const ReturnLevels levels_;
  absl::Time next_check_;
  absl::Time last_return_;
  absl::Duration pause_;     // before the next one, while the process is quiet
  absl::Duration cpu_time_;  // at the last check
  bool is_eager_ = false;    // the allocator keeps nothing
};

}  // namespace warpfold::server
