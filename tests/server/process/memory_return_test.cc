// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/memory_return.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace warpfold::server {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kProcess = 24 * kMiB;  // of a server that is ready, without what its flags ask for

TEST(MemoryReturnTest, IsOfWhatClientsMakeTheProcessHold) {
  const MemoryBudget budget = {.base = 64 * kMiB, .calls = 436 * kMiB};
  const ReturnLevels levels = ReturnLevelsOf(kProcess, budget);
  EXPECT_EQ(levels.enough, 30 * kMiB);
  EXPECT_EQ(levels.much, 250 * kMiB);
}

// With 3 GiB of kept arrays nothing was given back before the system ended the process.
TEST(MemoryReturnTest, HappensWithinTheBudgetWhateverIsTakenAtTheStart) {
  for (const std::uint64_t resident : {0, 100, 3 * 1024, 9 * 1024, 100 * 1024}) {
    for (const std::uint64_t slots : {8, 1024, 16 * 1024}) {
      const MemoryBudget budget = {
          .base = 64 * kMiB, .slots = slots * kMiB, .calls = 436 * kMiB, .resident = resident * kMiB};
      const std::uint64_t at_start = budget.slots + budget.resident + kProcess;
      const ReturnLevels levels = ReturnLevelsOf(at_start, budget);
      EXPECT_EQ(levels.enough, at_start + kProcess / 4) << resident << " " << slots;
      EXPECT_EQ(budget.total() - levels.much, 250 * kMiB) << resident << " " << slots;
    }
  }
}

// On a GPU slots lie in memory that does not count as the process' own.
TEST(MemoryReturnTest, LeavesOutWhatTheDriverHas) {
  Flags flags;
  flags.max_concurrent_reductions = 16;
  const BackendMemory cpu = {.host_bytes = 8 * kMiB, .slot_bytes = kMiB, .shards = 2};
  BackendMemory gpu = cpu;
  gpu.gpus = 8;
  gpu.host_bytes = 16 * 1024 * kMiB;
  const MemoryBudget of_gpu = BudgetOf(flags, gpu);
  EXPECT_EQ(BudgetOf(flags, cpu).pinned, 0u);
  EXPECT_EQ(of_gpu.pinned, gpu.host_bytes);
  const ReturnLevels levels = ReturnLevelsOf(kProcess, of_gpu);
  EXPECT_EQ(levels.enough, kProcess / 4 * 5);
  EXPECT_EQ(levels.much, (of_gpu.total() - gpu.host_bytes) / 2);
}

}  // namespace
}  // namespace warpfold::server
