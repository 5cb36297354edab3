// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The production kernels on more than 2^32 elements, so that an index, offset or count of 32 bits anywhere
// would show. Needs about 12 GB of device memory.
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/geometry.h"
#include "tests/kernels/device_under_test.h"

namespace warpfold::kernels::cuda {
namespace {

// Ones of 8 bits, except for two with other values: the one near the end lies beyond 2^32.
class LargeArraysTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kCount = (std::uint64_t{1} << 32) + 123'457;
  static constexpr std::uint64_t kLargestAt = 99;
  static constexpr std::uint64_t kSmallestAt = (std::uint64_t{1} << 32) + 4097;
  static constexpr std::int8_t kLargest = 100;
  static constexpr std::int8_t kSmallest = -3;

  static void SetUpTestSuite() {
    std::size_t free = 0;
    std::size_t total = 0;
    ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    if (SmallScale() || free < 2 * kCount + kCount / 2) return;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&array_), kCount), cudaSuccess);
    ASSERT_EQ(cudaMemset(array_, 1, kCount), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(array_ + kLargestAt, &kLargest, 1, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(array_ + kSmallestAt, &kSmallest, 1, cudaMemcpyHostToDevice), cudaSuccess);
    reducer_ = DeviceReducer::Create(kCount + kLeafBytes).value().release();
  }
  static void TearDownTestSuite() {
    delete reducer_;
    cudaFree(array_);
  }

  void SetUp() override {
    if (array_ == nullptr) GTEST_SKIP() << "at full scale, on a GPU with 12 GB to spare";
  }

  // Reduces the array as the elements from `first` on of a longer one.
  static OperatorValue Reduce(const std::string& op, std::uint64_t first = 0) {
    ReductionSpec spec;
    spec.operators = {op};
    spec.element_type = ElementType::kInt8;
    const ReductionPlan reduction = ReductionPlan::Create(spec).value();
    EXPECT_GE(reducer_->Capacity(reduction), kCount);
    const absl::Status launched = reducer_->Launch(reduction, first, array_, kCount, cudaStreamPerThread);
    EXPECT_TRUE(launched.ok()) << launched;
    EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
    return reducer_->Collect().Finish(0).value();
  }

  static inline std::byte* array_ = nullptr;
  static inline DeviceReducer* reducer_ = nullptr;
};

TEST_F(LargeArraysTest, Sums) {
  constexpr auto kSum = static_cast<std::int64_t>(kCount) - 2 + kLargest + kSmallest;
  EXPECT_EQ(Reduce("sum").entries[0].int64_value, kSum);
  EXPECT_EQ(Reduce("count_nonzero").entries[0].uint64_value, kCount);
  EXPECT_EQ(Reduce("mean").entries[0].double_value, static_cast<double>(kSum) / static_cast<double>(kCount));
  EXPECT_EQ(Reduce("describe").entries[0].uint64_value, kCount);
}

TEST_F(LargeArraysTest, Places) {
  const std::uint64_t far = std::uint64_t{1} << 40;
  for (const std::uint64_t first : {std::uint64_t{0}, far}) {
    const OperatorValue smallest = Reduce("argmin", first);
    EXPECT_EQ(smallest.index, first + kSmallestAt);
    EXPECT_EQ(smallest.entries[0].int64_value, kSmallest);
    const OperatorValue largest = Reduce("argmax", first);
    EXPECT_EQ(largest.index, first + kLargestAt);
    EXPECT_EQ(largest.entries[0].int64_value, kLargest);
  }
}

TEST_F(LargeArraysTest, InOrder) {
  EXPECT_EQ(Reduce("first").entries[0].int64_value, 1);
  EXPECT_EQ(Reduce("last").entries[0].int64_value, 1);
  // All of it: the elements after the smallest one make up for what that one costs.
  const OperatorValue best = Reduce("max_subarray_sum");
  EXPECT_EQ(best.index, 0u);
  EXPECT_EQ(best.end_index, kCount);
  EXPECT_EQ(best.entries[0].int64_value, static_cast<std::int64_t>(kCount) - 2 + kLargest + kSmallest);
}

}  // namespace
}  // namespace warpfold::kernels::cuda
