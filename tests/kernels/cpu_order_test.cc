// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// These tests look at which work the CPU backend ends first. Where the backend has one thread, the order says
// for whom that thread has worked.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

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
    slot(i).WorkFor(group, /*yields=*/false);
    ASSERT_TRUE(slot(i).Start(reduction, 0, bytes / reduction.element_bytes()).ok());
    slot(i).Notify();
  }

  // The slot that ended first, of three slow ones of one group and a small one of `group`.
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

// A backend that leaves all to its threads where nobody yields. Each of these is held in a slot's notice
// until the test ends, and does not count as one that reduces.
class HeldThreads {
 public:
  static constexpr std::uint64_t kElements = kSlotBytes / 8;  // of a slot

  explicit HeldThreads(int threads)
      : backend_(MakeCpuBackend({.slots = threads + 1,
                                 .slot_bytes = kSlotBytes,
                                 .threads = threads,
                                 .inline_time = absl::ZeroDuration()})
                     .value()) {
    for (int i = 0; i < threads; ++i) Hold(*backend_->slots()[static_cast<std::size_t>(i)]);
  }
  ~HeldThreads() { release_.count_down(); }
  HeldThreads(const HeldThreads&) = delete;
  HeldThreads& operator=(const HeldThreads&) = delete;

  Slot& slot() { return *backend_->slots().back(); }
  Backend& backend() { return *backend_; }

 private:
  void Hold(Slot& slot) {
    std::latch is_held(1);
    std::atomic<bool> ended_here = false;
    slot.NotifyBy([&is_held, &ended_here, here = std::this_thread::get_id(), this] {
      ended_here = std::this_thread::get_id() == here;
      if (ended_here) return;
      is_held.count_down();
      release_.wait();
    });
    do {
      ended_here = false;
      EXPECT_TRUE(slot.Start(SlowPlan(), 0, kElements).ok());
      slot.Notify();  // calls at once if this thread had to wait until the work was done
    } while (ended_here && slot.Wait().ok());
    is_held.wait();
  }

  std::latch release_{1};
  std::unique_ptr<Backend> backend_;
};

class CpuYieldingTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kElements = HeldThreads::kElements;

  const std::vector<std::byte> bytes_ = std::vector<std::byte>(kSlotBytes + 8);
  HeldThreads held_{1};
  Slot& slot_ = held_.slot();
};

TEST_F(CpuYieldingTest, WhoYieldsIsReducedInStart) {
  slot_.WorkFor(2, /*yields=*/true);
  ASSERT_TRUE(slot_.Start(PlanOf({"sum"}), 0, kElements / 32).ok());
  EXPECT_TRUE(slot_.Finished());
}

TEST_F(CpuYieldingTest, OthersAreLeftToTheThreads) {
  slot_.WorkFor(2, /*yields=*/true);
  slot_.WorkFor(2, /*yields=*/false);
  ASSERT_TRUE(slot_.Start(PlanOf({"sum"}), 0, kElements / 32).ok());
  EXPECT_FALSE(slot_.Finished());
}

TEST_F(CpuYieldingTest, WhatTakesLongIsLeftToTheThreads) {
  slot_.WorkFor(2, /*yields=*/true);
  ASSERT_TRUE(slot_.Start(SlowPlan(), 0, kElements).ok());
  EXPECT_FALSE(slot_.Finished());
}

TEST_F(CpuYieldingTest, WhatIsMoreThanASlotIsLeftToTheThreads) {
  const auto memory = held_.backend().Register(bytes_).value();
  slot_.WorkFor(2, /*yields=*/true);
  ASSERT_TRUE(slot_.StartFrom(PlanOf({"last"}), 0, kElements + 1, *memory, 0).ok());
  EXPECT_FALSE(slot_.Finished());
}

// One thread of four reduces, the one that calls Start: the others may help.
TEST(CpuIdleThreadsTest, ThreadsThatAreIdleHelpWhoYields) {
  HeldThreads held(4);
  held.slot().WorkFor(2, /*yields=*/true);
  ASSERT_TRUE(held.slot().Start(PlanOf({"sum"}), 0, HeldThreads::kElements / 32).ok());
  EXPECT_FALSE(held.slot().Finished());
}

}  // namespace
}  // namespace warpfold::kernels::cpu
