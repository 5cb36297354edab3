// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// These tests check which work the CPU backend ends first: if the backend has one thread, the order shows for
// whom that thread has worked.
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
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

}  // namespace
}  // namespace warpfold::kernels::cpu
