// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The textbook's algorithms on arrays larger than a slot: more than 2^31 elements, so that an index of 32
// bits anywhere would show, and long products of matrices, for which a wrong order would show. Needs about 12
// GB of device memory.
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/algorithm.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/geometry.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels::cuda {
namespace {

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDeviceMemory>;

DeviceMemory Allocate(std::size_t bytes) {
  std::byte* memory = nullptr;
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), bytes), cudaSuccess);
  return DeviceMemory(memory);
}

PartialState ReduceOnDevice(DeviceReducer& reducer, const ReductionPlan& reduction, std::uint64_t first,
                            const std::byte* data, std::uint64_t count) {
  const absl::Status status = reducer.Launch(reduction, first, data, count, cudaStreamPerThread);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  return reducer.Collect();
}

std::vector<Algorithm> Named() {
  std::vector<Algorithm> algorithms;
  for (int i = 1; i < kAlgorithmCount; ++i) algorithms.push_back(static_cast<Algorithm>(i));
  return algorithms;
}

class TextbookDeviceTest : public testing::TestWithParam<Algorithm> {
 protected:
  static constexpr std::uint64_t kCount = (std::uint64_t{1} << 31) + 12345;
  static constexpr std::uint64_t kLargestAt = (std::uint64_t{1} << 31) + 7;
  static constexpr std::int64_t kElement = 0x01010101;
  static constexpr std::int32_t kLargest = 0x7ffffff0;

  // kCount times kElement, except for one kLargest.
  static void SetUpTestSuite() {
    std::size_t free = 0;
    std::size_t total = 0;
    ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    const std::size_t bytes = kCount * sizeof(std::int32_t);
    if (SmallScale() || free < bytes + bytes / 3) return;
    array_ = Allocate(bytes).release();
    ASSERT_EQ(cudaMemset(array_, 1, bytes), cudaSuccess);
    ASSERT_EQ(
        cudaMemcpy(array_ + kLargestAt * sizeof kLargest, &kLargest, sizeof kLargest, cudaMemcpyHostToDevice),
        cudaSuccess);
    reducer_ = DeviceReducer::Create(bytes + kLeafBytes).value().release();
  }
  static void TearDownTestSuite() {
    delete reducer_;
    DeviceMemory(array_).reset();
  }

  static inline std::byte* array_ = nullptr;
  static inline DeviceReducer* reducer_ = nullptr;
};

TEST_P(TextbookDeviceTest, CountsBeyond32Bits) {
  if (array_ == nullptr) GTEST_SKIP() << "at full scale, on a GPU with 12 GB to spare";
  ReductionSpec spec;
  spec.operators = {"sum"};
  const bool serves_extrema = kAlgorithms[static_cast<int>(GetParam())].serves_extrema;
  if (serves_extrema) spec.operators = {"sum", "max", "min"};
  spec.element_type = ElementType::kInt32;
  spec.algorithm = GetParam();
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const std::uint64_t first = std::uint64_t{1} << 40;
  const PartialState state = ReduceOnDevice(*reducer_, reduction, first, array_, kCount);
  EXPECT_EQ(state.element_count(), kCount);
  EXPECT_EQ(state.Finish(0)->entries[0].int64_value,
            static_cast<std::int64_t>(kCount - 1) * kElement + kLargest);
  if (!serves_extrema) return;
  EXPECT_EQ(state.Finish(1)->entries[0].int64_value, kLargest);
  EXPECT_EQ(state.Finish(2)->entries[0].int64_value, kElement);
}

TEST_P(TextbookDeviceTest, KeepsTheOrderOfLongProducts) {
  if (!KeepsOrder(GetParam())) return;
  ReductionSpec spec;
  spec.operators = {"matrix_product"};
  spec.element_type = ElementType::kInt32;
  spec.shape = {2, 2};
  const ReductionPlan canonical = ReductionPlan::Create(spec).value();
  spec.algorithm = GetParam();
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const std::uint64_t count = (SmallScale() ? 10'000 : 1'000'000) / spec.shape.entries() + 3;
  Random random;
  std::vector<std::byte> host =
      RandomElements(spec.element_type, count * spec.shape.entries(), Flavour::kTame, random);
  MakeUnitLike(spec.element_type, spec.shape.rows, host);
  const DeviceMemory array = Allocate(host.size());
  ASSERT_EQ(cudaMemcpy(array.get(), host.data(), host.size(), cudaMemcpyHostToDevice), cudaSuccess);
  const auto reducer = DeviceReducer::Create(host.size() + reduction.leaf_bytes()).value();
  const PartialState state = ReduceOnDevice(*reducer, reduction, 0, array.get(), count);
  EXPECT_EQ(Describe(state.Finish(0)), Describe(ReduceOnHost(canonical, 0, host).Finish(0)));
}

INSTANTIATE_TEST_SUITE_P(Every, TextbookDeviceTest, testing::ValuesIn(Named()),
                         [](const auto& a) { return std::string(AlgorithmName(a.param)); });

}  // namespace
}  // namespace warpfold::kernels::cuda
