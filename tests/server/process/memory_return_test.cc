// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/memory_return.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace warpfold::server {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kProcess = 24 * kMiB;  // a server that is ready, without what its flags ask for

TEST(MemoryReturnTest, IsOfWhatClientsMakeTheProcessHold) {
  const MemoryBudget budget = {.base = 64 * kMiB, .calls = 436 * kMiB};
  const ReturnLevels levels = ReturnLevelsOf(kProcess, budget);
  EXPECT_EQ(levels.enough, 30 * kMiB);
  EXPECT_EQ(levels.much, 250 * kMiB);
}

// Previously, with 3 GiB of kept arrays, nothing was given back before the system ended the process.
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

// On a GPU, slots lie in memory that does not count as the process's own.
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

// A process of 24 MiB of which clients may make 524 (so that 30 are enough and 262 are many), with a clock
// that the test sets.
class TrimTest : public testing::Test {
 protected:
  // Half a second later, with the memory that the process holds then and the share of a core that it had.
  void Step(std::uint64_t mib, double share) {
    now_ += absl::Milliseconds(500);
    held_ = mib * kMiB;
    cpu_time_ += share * absl::Milliseconds(500);
    memory_return_.TrimIfLarge(now_);
  }
  void Steps(int seconds, std::uint64_t mib, double share) {
    for (int i = 0; i < 2 * seconds; ++i) Step(mib, share);
  }
  std::string TakeDone() { return std::exchange(done_, ""); }

  absl::Time now_ = absl::UnixEpoch();
  std::uint64_t held_ = kProcess;
  std::uint64_t after_trim_ = kProcess;
  absl::Duration cpu_time_;
  std::string done_;  // a word for each action
  MemoryReturn memory_return_{now_,
                              {.base = 64 * kMiB, .calls = 460 * kMiB},
                              {.own_bytes = [this] { return held_; },
                               .cpu_time = [this] { return cpu_time_; },
                               .trim =
                                   [this] {
                                     done_ += "trim ";
                                     held_ = std::min(held_, after_trim_);
                                   },
                               .keep_free = [this](bool keep) { done_ += keep ? "keep " : "drop "; }}};
};

TEST_F(TrimTest, NeverOfAProcessThatHoldsEnough) {
  Steps(600, 30, 0);
  EXPECT_EQ(TakeDone(), "");
}

TEST_F(TrimTest, AfterFiveSecondsOfQuiet) {
  Steps(4, 31, 0);
  EXPECT_EQ(TakeDone(), "");
  Steps(1, 31, 0);
  EXPECT_EQ(TakeDone(), "trim ");
}

TEST_F(TrimTest, OnceAMinuteWhileItIsBusy) {
  Steps(59, 31, 1);
  EXPECT_EQ(TakeDone(), "");
  Steps(60, 31, 1);
  EXPECT_EQ(TakeDone(), "trim ");
}

TEST_F(TrimTest, AtOnceAndAgainSoonOfMuch) {
  Step(263, 1);
  EXPECT_EQ(TakeDone(), "drop trim ");
  Step(263, 1);
  EXPECT_EQ(TakeDone(), "drop trim ");
  // At the next check the allocator retains memory as before.
  Steps(5, 24, 1);
  EXPECT_EQ(TakeDone(), "keep ");
}

TEST_F(TrimTest, AtOnceButNotWithin200MillisecondsOfTheLast) {
  Step(263, 1);
  EXPECT_EQ(TakeDone(), "drop trim ");
  held_ = 263 * kMiB;
  memory_return_.TrimIfLarge(now_ + absl::Milliseconds(199));
  EXPECT_EQ(TakeDone(), "");
  memory_return_.TrimIfLarge(now_ + absl::Milliseconds(200));
  EXPECT_EQ(TakeDone(), "drop trim ");
}

// Memory that is in use does not come back, however often one asks for it.
TEST_F(TrimTest, LessAndLessOftenWhileItDoesNotHelp) {
  after_trim_ = 100 * kMiB;
  Steps(5, 100, 0);
  EXPECT_EQ(TakeDone(), "trim drop ");
  Steps(5, 100, 0);
  EXPECT_EQ(TakeDone(), "keep ");
  Steps(5, 100, 0);
  EXPECT_EQ(TakeDone(), "trim drop ");
  Steps(15, 100, 0);
  EXPECT_EQ(TakeDone(), "keep ");
  Steps(5, 100, 0);
  EXPECT_EQ(TakeDone(), "trim drop ");
  // Work ends that: the memory that it leaves is looked for soon.
  Steps(5, 100, 1);
  TakeDone();
  Steps(5, 100, 0);
  EXPECT_EQ(TakeDone(), "trim drop ");
}

}  // namespace
}  // namespace warpfold::server
