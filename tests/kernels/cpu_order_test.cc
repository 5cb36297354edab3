// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// These tests check which work the CPU backend ends first: if the backend has one thread, the order shows for
// whom that thread has worked. They also check what a Start leaves to the threads at all (docs/adr/0122).
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/tasks.h"

namespace warpfold::kernels::cpu {
namespace {

constexpr int kSlots = 4;
constexpr std::size_t kSlotBytes = std::size_t{16} << 20;

ReductionPlan PlanOf(std::vector<std::string> operators) {
  ReductionSpec spec;
  spec.operators = std::move(operators);
  spec.element_type = ElementType::kFloat64;
  return ReductionPlan::Create(spec).value();
}

ReductionPlan SlowPlan() {
  return PlanOf({"exact_sum", "logsumexp", "describe", "max_subarray_sum", "stddev"});
}

class CpuOrderTest : public testing::Test {
 protected:
  CpuOrderTest()
      : backend_(MakeCpuBackend({.slots = kSlots,
                                 .slot_bytes = kSlotBytes,
                                 .threads = 1,
                                 .inline_time = absl::ZeroDuration()})
                     .value()) {
    for (int i = 0; i < kSlots; ++i) {
      slot(i).NotifyBy([this, i] {
        {
          const std::lock_guard lock(mutex_);
          ended_.push_back(i);
        }
        all_ended_.count_down();
      });
    }
  }

  Slot& slot(int i) { return *backend_->slots()[static_cast<std::size_t>(i)]; }

  void Start(int i, std::uint64_t group, const ReductionPlan& reduction, std::size_t bytes) {
    slot(i).WorkFor(group);
    ASSERT_TRUE(slot(i).Start(reduction, 0, bytes / reduction.element_bytes()).ok());
    slot(i).Notify();
  }

  // Which slot ended first, of three slow ones of one group and a small one of `group`.
  int FirstToEnd(std::uint64_t group) {
    const ReductionPlan slow = SlowPlan();
    for (int i = 0; i < kSlots - 1; ++i) Start(i, 1, slow, kSlotBytes);
    Start(kSlots - 1, group, PlanOf({"sum"}), std::size_t{1} << 20);
    all_ended_.wait();
    for (int i = 0; i < kSlots; ++i) EXPECT_TRUE(slot(i).Wait().ok());
    return ended_.front();
  }

 private:
  std::mutex mutex_;
  std::vector<int> ended_;  // guarded by mutex_
  std::latch all_ended_{kSlots};
  std::unique_ptr<Backend> backend_;  // last: its threads use what is above
};

TEST_F(CpuOrderTest, ASmallStartOfAnotherGroupEndsBeforeSlowOnes) { EXPECT_EQ(FirstToEnd(2), kSlots - 1); }
TEST_F(CpuOrderTest, ASmallStartOfTheSameGroupEndsBeforeSlowOnes) { EXPECT_EQ(FirstToEnd(1), kSlots - 1); }

// How often a Start ends within Start, in cases in which it otherwise leaves all but its first task to the
// pool. The pool's one thread works for kGreedy, and kOther has had something a moment ago. A busy machine
// may take the processor from any of these threads, so it is enough if most of the attempts agree.
class CpuYieldingTest : public testing::Test {
 protected:
  static constexpr int kAttempts = 20;
  static constexpr int kMost = kAttempts * 3 / 4;
  static constexpr std::uint64_t kGreedy = 1;
  static constexpr std::uint64_t kOther = 2;
  static constexpr std::uint64_t kTwoTasks = kTaskBytes / 4;  // elements of float64, of which 128 KiB are one

  void Open(int threads) {
    is_started_ = false;
    backend_ =
        MakeCpuBackend(
            {.slots = 3, .slot_bytes = kSlotBytes, .threads = threads, .inline_time = absl::Nanoseconds(1)})
            .value();
    for (int i = 0; i < 3; ++i) slot(i).NotifyBy([] {});
  }
  Slot& slot(int i) { return *backend_->slots()[static_cast<std::size_t>(i)]; }

  void KeepBusy() {
    if (!slot(0).Finished()) return;
    if (std::exchange(is_started_, true)) EndBusy();
    slot(0).WorkFor(kGreedy);
    ASSERT_TRUE(slot(0).Start(SlowPlan(), 0, kSlotBytes / 8).ok());
  }
  void EndBusy() { EXPECT_TRUE(slot(0).Wait().ok()); }
  void TouchOther() {
    slot(1).WorkFor(kOther);
    ASSERT_TRUE(slot(1).Start(PlanOf({"sum"}), 0, kTwoTasks / 2).ok());
    ASSERT_TRUE(slot(1).Wait().ok());
  }
  // With `busy`, while the pool works.
  int EndedInStart(std::uint64_t group, bool busy, const std::function<absl::Status(Slot&)>& start,
                   const std::function<absl::Status(Slot&)>& wait = WaitForRange) {
    int ended = 0;
    for (int i = 0; i < kAttempts; ++i) {
      if (busy) KeepBusy();
      TouchOther();
      slot(2).WorkFor(group);
      EXPECT_TRUE(start(slot(2)).ok());
      ended += slot(2).Finished() ? 1 : 0;
      EXPECT_TRUE(wait(slot(2)).ok());
    }
    if (busy) EndBusy();
    return ended;
  }
  static absl::Status WaitForRange(Slot& slot) { return slot.Wait().status(); }
  static absl::Status StartTwoTasks(Slot& slot) { return slot.Start(PlanOf({"sum"}), 0, kTwoTasks); }

 private:
  bool is_started_ = false;
  std::unique_ptr<Backend> backend_;

 protected:
  Backend& backend() { return *backend_; }
};

// If the machine takes the processor while kOther has it, that one has had most: then the test tries again.
TEST_F(CpuYieldingTest, WhoHasHadMostKeepsToTheThread) {
  int ended = 0;
  for (int i = 0; i < 10 && ended <= kMost; ++i) {
    Open(1);
    ended = EndedInStart(kGreedy, true, StartTwoTasks);
  }
  EXPECT_GT(ended, kMost);
}

TEST_F(CpuYieldingTest, WhoIsFarBehindHasThePool) {
  Open(1);
  for (int i = 0; i < 4; ++i) {
    KeepBusy();
    EndBusy();
  }
  EXPECT_LT(EndedInStart(3, true, StartTwoTasks), kMost);
}

TEST_F(CpuYieldingTest, IdleThreadsHelpWhoHasHadMost) {
  Open(1);
  const auto start = [](Slot& slot) { return slot.Start(SlowPlan(), 0, 6 * kTwoTasks); };
  EXPECT_LT(EndedInStart(kGreedy, false, start), kMost);
}

TEST_F(CpuYieldingTest, WhatTakesLongIsLeftToThePool) {
  Open(1);
  const auto start = [](Slot& slot) { return slot.Start(SlowPlan(), 0, kSlotBytes / 8); };
  EXPECT_LT(EndedInStart(kGreedy, true, start), kMost);
}

TEST_F(CpuYieldingTest, WhatLiesInMemoryIsLeftToThePool) {
  Open(1);
  const std::vector<std::byte> bytes(8 * kTwoTasks);
  const auto memory = backend().Register(bytes).value();
  const auto start = [&](Slot& slot) { return slot.StartFrom(PlanOf({"sum"}), 0, kTwoTasks, *memory, 0); };
  EXPECT_LT(EndedInStart(kGreedy, true, start), kMost);
}

// One message may have hundreds of them.
TEST_F(CpuYieldingTest, SegmentsAreLeftToThePool) {
  Open(1);
  SegmentCut cut;
  cut.segment_count = 2 * kTaskResults;
  cut.length = 1;
  const auto start = [&](Slot& slot) { return slot.StartSegments(PlanOf({"sum"}), cut); };
  const auto wait = [](Slot& slot) { return slot.WaitSegments().status(); };
  EXPECT_LT(EndedInStart(kGreedy, true, start, wait), kMost);
}

}  // namespace
}  // namespace warpfold::kernels::cpu
