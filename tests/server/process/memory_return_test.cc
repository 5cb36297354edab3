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
TEST(MemoryReturnTest, ToleratesABudgetOfMoreThanThereIs) {
  const MemoryBudget budget = {.base = 64 * kMiB, .slots = 1024 * kMiB, .calls = 436 * kMiB};
  const ReturnLevels levels = ReturnLevelsOf(kProcess, budget);
  EXPECT_EQ(levels.enough, kProcess);
  EXPECT_GT(levels.much, levels.enough);
  EXPECT_LT(levels.much, budget.total());
}

}  // namespace
}  // namespace warpfold::server
