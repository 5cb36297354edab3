// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Grids of every kind: GPUs with few multiprocessors have so few blocks that these draw most of their units,
// even in arrays that are not long. Every operator, element type and shape is compared with the canonical
// order.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/cuda/units.cuh"
#include "kernels/operators/table.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels::cuda {
namespace {

constexpr std::size_t kArrayBytes = 512 << 10;

// Just long enough for units to be drawn.
std::size_t ArrayBytes() { return TinyScale() ? 384 << 10 : kArrayBytes; }

class GridsTest : public testing::TestWithParam<Subject> {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(StatusOf(cudaMalloc(reinterpret_cast<void**>(&device_), kArrayBytes), "cudaMalloc").ok());
    for (const std::uint32_t multiprocessors : {1u, 3u}) {
      if (TinyScale() && multiprocessors > 1) continue;
      reducers_.push_back(DeviceReducer::Create(kArrayBytes, multiprocessors).value());
    }
  }
  static void TearDownTestSuite() {
    reducers_.clear();
    cudaFree(device_);
  }

  static inline std::byte* device_ = nullptr;
  static inline std::vector<std::unique_ptr<DeviceReducer>> reducers_;
};

TEST_P(GridsTest, BitsDoNotDependOnTheMultiprocessors) {
  const ReductionPlan reduction = ReductionPlan::Create(GetParam().spec).value();
  // For some shapes, leaves do not fill the array.
  const std::uint64_t most =
      std::min(ArrayBytes() / reduction.element_bytes(), reducers_[0]->Capacity(reduction));
  Random random(most);
  for (const std::uint64_t first_leaf : {0, 5}) {
    if (TinyScale() && first_leaf == 0) continue;
    const std::uint64_t count = most - first_leaf;
    const ReductionSpec& spec = reduction.spec();
    const Flavour flavour = first_leaf == 0 ? Flavour::kTame : Flavour::kOutliers;
    std::vector<std::byte> data =
        RandomElements(spec.element_type, count * spec.shape.entries(), flavour, random);
    if (flavour == Flavour::kTame && reduction.operators()[0].entry->whole_matrix) {
      MakeUnitLike(spec.element_type, spec.shape.rows, data);
    }
    ASSERT_EQ(cudaMemcpy(device_, data.data(), data.size(), cudaMemcpyHostToDevice), cudaSuccess);
    const std::uint64_t first = first_leaf * reduction.leaf_elements();
    const reference::Result expected = GetParam().Reference(first, data);
    for (const auto& reducer : reducers_) {
      // Twice: the first launch leaves its tickets as the second one needs them.
      for (int turn = 0; turn < (TinyScale() ? 1 : 2); ++turn) {
        ASSERT_TRUE(reducer->Launch(reduction, first, device_, count, cudaStreamPerThread).ok());
        ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
        ASSERT_NO_FATAL_FAILURE(ExpectSame(reducer->Collect(), 0, expected));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GridsTest, testing::ValuesIn(AllSubjects()),
                         [](const auto& subject) { return subject.param.name; });

// Every leaf is in exactly one unit or edge.
TEST(PlanUnitsTest, EveryLeafIsPlannedOnce) {
  constexpr std::uint64_t kElements = 1024;  // of a leaf
  Random random;
  for (int i = 0; i < 20000; ++i) {
    Range range;
    range.first_leaf = random() % 3 == 0 ? 0 : random() % 5000;
    range.element_count = 1 + random() % (std::uint64_t{1} << (10 + random() % 15));
    range.leaf_count = (range.element_count + kElements - 1) / kElements;
    const std::uint64_t resident = 1 + random() % 800;
    const auto smallest = static_cast<std::uint32_t>(random() % 4);
    const UnitPlan plan = PlanUnits(range, kElements, smallest, smallest + random() % 4, resident);
    std::vector<int> planned(range.leaf_count);
    for (std::uint64_t edge = 0; edge < plan.edge_leaves(); ++edge) {
      ++planned.at(plan.EdgeLeaf(range, edge) - range.first_leaf);
    }
    const std::uint64_t leaves = std::uint64_t{1} << plan.unit_level;
    for (std::uint64_t unit = 0; unit < plan.units; ++unit) {
      const std::uint64_t begin = (plan.first_unit + unit) * leaves;
      for (std::uint64_t leaf = begin; leaf < begin + leaves; ++leaf) ++planned.at(leaf - range.first_leaf);
    }
    ASSERT_THAT(planned, testing::Each(1));
    if (plan.units == 0) continue;
    // Units are read without bounds.
    ASSERT_LE((plan.first_unit + plan.units) * leaves - range.first_leaf, range.element_count / kElements);
    ASSERT_GE(plan.unit_blocks, 1u);
    ASSERT_LE(plan.unit_blocks, std::min<std::uint64_t>(plan.units, resident));
    ASSERT_EQ(plan.draws, plan.units > 2 * resident);
  }
}

}  // namespace
}  // namespace warpfold::kernels::cuda
