// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments on GPUs with few multiprocessors, whose warps take many items one after the other and runs of
// several leaves, from arrays that begin at any element. Every operator over scalars is compared with the
// host.
#include "kernels/cuda/segments/device_segment_reducer.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/geometry.h"
#include "kernels/segment_out.h"
#include "tests/kernels/device_under_test.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels::cuda {
namespace {

constexpr std::size_t kArrayBytes = 4 << 20;
constexpr std::size_t kResultBytes = 1 << 20;
constexpr std::uint64_t kMaxOffset = 3;  // elements
constexpr std::uint64_t kFewRuns = 5;

std::vector<Subject> OverScalars() {
  std::vector<Subject> subjects = AllSubjects();
  std::erase_if(subjects, [](const Subject& subject) { return subject.spec.shape.is_matrix(); });
  return subjects;
}

class DeviceSegmentReducerTest : public testing::TestWithParam<Subject> {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(
        StatusOf(cudaMalloc(reinterpret_cast<void**>(&device_), kArrayBytes + kMaxOffset * 8), "cudaMalloc")
            .ok());
    // Kernels read whole vectors. The memory around the segments has values, so that initcheck reports other
    // reads.
    ASSERT_EQ(cudaMemset(device_, 0, kArrayBytes + kMaxOffset * 8), cudaSuccess);
    reducer_ = DeviceSegmentReducer::Create(kResultBytes, 1).value();
    few_runs_ = DeviceSegmentReducer::Create(kResultBytes, 1, kFewRuns).value();
  }
  static void TearDownTestSuite() {
    reducer_.reset();
    few_runs_.reset();
    cudaFree(device_);
  }

  // The segments that fill `bytes`; the first is `offset` elements after the start of the memory.
  void Check(const SegmentCut& cut, std::uint64_t offset, Flavour flavour) {
    Check(*reducer_, cut, offset, flavour);
  }
  void Check(DeviceSegmentReducer& reducer, const SegmentCut& cut, std::uint64_t offset, Flavour flavour) {
    const std::uint64_t elements = cut.ElementCount();
    const std::uint64_t element_bytes = reduction_.element_bytes();
    const std::vector<std::byte> data =
        RandomElements(GetParam().spec.element_type, elements, flavour, random_);
    std::byte* const at = device_ + offset * element_bytes;
    ASSERT_LE(data.size(), kArrayBytes);
    ASSERT_EQ(cudaMemcpy(at, data.data(), data.size(), cudaMemcpyHostToDevice), cudaSuccess);
    // Twice: the first launch leaves its tickets as the second one needs them.
    for (int turn = 0; turn < (TinyScale() ? 1 : 2); ++turn) {
      ASSERT_TRUE(reducer.Launch(reduction_, cut, at, cudaStreamPerThread, {}).ok());
      ASSERT_TRUE(reducer.CopyResults(cudaStreamPerThread).ok());
      ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
      ASSERT_NO_FATAL_FAILURE(Compare(cut, data, reducer.Collect()));
    }
  }

  void Compare(const SegmentCut& cut, std::span<const std::byte> data, const SegmentsResult& result) {
    std::vector<bool> is_error(cut.segment_count);
    for (const SegmentError& error : result.errors) is_error[error.segment] = true;
    for (std::uint64_t i = 0; i < cut.segment_count; ++i) {
      const std::uint64_t bytes = cut.LengthOf(i) * reduction_.element_bytes();
      const auto value = ReduceOnHost(reduction_, 0, data.first(bytes)).Finish(0);
      data = data.subspan(bytes);
      ASSERT_EQ(is_error[i], !value.ok()) << "segment " << i << " of " << cut.LengthOf(i) << " elements";
      if (!value.ok()) continue;
      for (std::size_t field = 0; field < value->entries.size(); ++field) {
        ASSERT_EQ(result.Column(field)[i], ColumnBits(value->entries[field]))
            << "segment " << i << " of " << cut.LengthOf(i) << " elements, field " << field;
      }
      if (value->index.has_value()) {
        ASSERT_EQ(result.Column(value->entries.size())[i], *value->index);
      }
    }
  }

  static inline std::byte* device_ = nullptr;
  static inline std::unique_ptr<DeviceSegmentReducer> reducer_;
  static inline std::unique_ptr<DeviceSegmentReducer> few_runs_;
  const ReductionPlan reduction_ = ReductionPlan::Create(GetParam().spec).value();
  Random random_;
};

TEST_P(DeviceSegmentReducerTest, OfVaryingLengths) {
  const std::uint64_t most = (TinyScale() ? 64 << 10 : kArrayBytes) / reduction_.element_bytes();
  const std::uint64_t leaf = reduction_.leaf_elements();
  std::vector<std::uint64_t> lengths;
  std::uint64_t sum = 0;
  while (true) {
    const std::uint64_t longest[] = {5, 70, leaf, 5 * leaf, 40 * leaf};
    const std::uint64_t length = random_() % longest[random_() % (TinyScale() ? 4 : 5)];
    if (sum + length > most) break;
    sum += length;
    lengths.push_back(length);
  }
  const SegmentCut cut = {.segment_count = lengths.size(), .lengths = lengths};
  ASSERT_NO_FATAL_FAILURE(Check(cut, 1, Flavour::kOutliers));
}

TEST_P(DeviceSegmentReducerTest, OfOneLength) {
  const std::uint64_t most = (TinyScale() ? 48 << 10 : kArrayBytes / 4) / reduction_.element_bytes();
  const std::uint64_t leaf = reduction_.leaf_elements();
  std::uint64_t turn = 0;
  for (const std::uint64_t length : {std::uint64_t{3}, leaf / 4, leaf - 1, 9 * leaf + 3, most}) {
    const Flavour flavour = kFlavours[turn % std::size(kFlavours)];
    const std::uint64_t count = std::min<std::uint64_t>(most / length, 20'000);
    ASSERT_NO_FATAL_FAILURE(Check({.segment_count = count, .length = length}, turn++ % 4, flavour));
  }
}

// These are folded in registers by most types' kernels: from one vector to runs of several steps.
TEST_P(DeviceSegmentReducerTest, OfWholeVectors) {
  const std::uint64_t vector = kVectorBytes / reduction_.element_bytes();
  const std::uint64_t leaf = reduction_.leaf_elements();
  const std::uint64_t most = (TinyScale() ? 16 << 10 : 256 << 10) / reduction_.element_bytes();
  std::uint64_t turn = 0;
  for (const std::uint64_t length : {vector, leaf / 16, leaf / 8, leaf / 4, leaf / 4 + vector, leaf / 2,
                                     3 * leaf / 4 + vector, leaf, leaf + vector, 3 * leaf}) {
    const Flavour flavour = kFlavours[turn++ % std::size(kFlavours)];
    const std::uint64_t count = std::min<std::uint64_t>(most / length, 1 + 517 / turn);
    ASSERT_NO_FATAL_FAILURE(Check({.segment_count = count, .length = length}, 0, flavour));
  }
  // Runs of 16 leaves and more; the last run has one vector of a last leaf.
  ASSERT_NO_FATAL_FAILURE(
      Check(*few_runs_, {.segment_count = 3, .length = 21 * leaf + vector}, 0, Flavour::kOutliers));
  ASSERT_NO_FATAL_FAILURE(
      Check(*few_runs_, {.segment_count = 1, .length = 100 * leaf + vector}, 0, Flavour::kOutliers));
  std::vector<std::uint64_t> lengths;
  std::uint64_t sum = 0;
  while (true) {
    const std::uint64_t longest[] = {5, 70, leaf / 4, leaf, 5 * leaf, 20 * leaf};
    const std::uint64_t length = random_() % longest[random_() % (TinyScale() ? 4 : 6)] / vector * vector;
    if (sum + length > 2 * most) break;
    sum += length;
    lengths.push_back(length);
  }
  const SegmentCut cut = {.segment_count = lengths.size(), .lengths = lengths};
  ASSERT_NO_FATAL_FAILURE(Check(cut, 0, Flavour::kOutliers));
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceSegmentReducerTest, testing::ValuesIn(OverScalars()),
                         [](const auto& subject) { return subject.param.name; });

TEST(DeviceSegmentReducerRefusesTest, TooManySegmentsAndElementsAcrossTheirPlaces) {
  ReductionSpec spec;
  spec.operators = {"sum"};
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  const auto reducer = DeviceSegmentReducer::Create(kResultBytes, 1).value();
  std::byte* memory = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 64), cudaSuccess);
  ASSERT_EQ(cudaMemset(memory, 0, 64), cudaSuccess);
  const std::uint64_t most = reducer->Capacity(reduction);
  EXPECT_EQ(most, kResultBytes / 8);
  EXPECT_TRUE(absl::IsInternal(
      reducer->Launch(reduction, {.segment_count = most + 1, .length = 0}, memory, cudaStreamPerThread, {})));
  EXPECT_TRUE(absl::IsInternal(
      reducer->Launch(reduction, {.segment_count = 1, .length = 1}, memory + 1, cudaStreamPerThread, {})));
  EXPECT_TRUE(
      reducer->Launch(reduction, {.segment_count = 1, .length = 1}, memory, cudaStreamPerThread, {}).ok());
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  cudaFree(memory);
}

}  // namespace
}  // namespace warpfold::kernels::cuda
