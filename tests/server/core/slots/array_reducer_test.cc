// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How an array of known size is divided among slots: into ever smaller parts towards its end, so that little
// is left for the device to do when the last bytes come. The bits do not depend on it.
#include "server/core/slots/array_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/clock.h"
#include "server/core/clock.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kLeafElements = 1024;
constexpr std::size_t kSlotLeaves = 16;

kernels::ReductionPlan SumOfFloats(kernels::Algorithm algorithm = kernels::Algorithm::kAuto) {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kFloat32;
  spec.algorithm = algorithm;
  return kernels::ReductionPlan::Create(spec).value();
}

double SumOf(const kernels::PartialState& state) { return state.Finish(0)->entries[0].double_value; }

// Sums of these round, so that they show how they were made.
std::vector<float> Elements(std::size_t count) {
  std::vector<float> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = 1.0f / static_cast<float>(i + 1);
  return elements;
}

class ArrayReducerTest : public testing::Test {
 protected:
  ArrayReducerTest() { backend_.behaviour.ends_in_start = false; }

  // Appends `count` elements, 1,000 bytes at a time, of which `known` were announced, and records how many
  // elements each start had: first the starts before the end of the array, then the others.
  void Reduce(std::size_t count, std::size_t known,
              kernels::Algorithm algorithm = kernels::Algorithm::kAuto) {
    const std::vector<float> elements = Elements(count);
    const kernels::ReductionPlan plan = SumOfFloats(algorithm);
    ArrayReducer reducer(pool_, clock_, {.reduction = plan, .least_bytes = known * sizeof(float)}, [] {});
    before_end_ = at_end_ = {};
    for (ByteSlice rest = std::as_bytes(std::span(elements)); !rest.empty();) {
      const auto placed = reducer.Append(rest.first(std::min<std::size_t>(rest.size(), 1000)), nullptr);
      ASSERT_TRUE(placed.ok());
      rest = rest.subspan(*placed);
      NoteStart(before_end_);
    }
    while (!*reducer.TryFinish()) NoteStart(at_end_);
    if (!plan.canonical()) return;
    const kernels::PartialState expected = kernels::ReduceOnHost(plan, 0, std::as_bytes(std::span(elements)));
    EXPECT_EQ(SumOf(reducer.state()), SumOf(expected));
  }

  void NoteStart(std::vector<std::size_t>& starts) {
    const std::uint64_t elements = backend_.behaviour.elements.exchange(0);
    if (elements > 0) starts.push_back(elements / kLeafElements);
    pool_.Poll();
  }

  FakeBackend backend_{2, kSlotLeaves* kLeafElements * sizeof(float)};
  SlotPool pool_{SlotsOf(backend_)};
  const Clock clock_ = absl::Now;
  std::vector<std::size_t> before_end_;  // leaves of each start
  std::vector<std::size_t> at_end_;
};

using Leaves = std::vector<std::size_t>;

TEST_F(ArrayReducerTest, SlotsGetSmallerTowardsAKnownEnd) {
  Reduce(70 * kLeafElements, 70 * kLeafElements);
  EXPECT_EQ(before_end_, (Leaves{16, 16, 16, 11, 6, 3, 2}));
  EXPECT_EQ(at_end_, Leaves{}) << "the device need not wait for the commit";
}

TEST_F(ArrayReducerTest, TheRestOfLessThanALeafIsTheHosts) {
  Reduce(33 * kLeafElements + 1, 33 * kLeafElements + 1);
  EXPECT_EQ(before_end_, (Leaves{16, 9, 5, 2, 1}));
  EXPECT_EQ(at_end_, Leaves{});
}

TEST_F(ArrayReducerTest, SmallArraysAreOneStart) {
  Reduce(2 * kLeafElements + 5, 2 * kLeafElements + 5);
  EXPECT_EQ(before_end_, Leaves{2});
  Reduce(kLeafElements, kLeafElements);
  EXPECT_EQ(before_end_, Leaves{}) << "the host reduces a leaf";
  Reduce(100, 100);
  EXPECT_EQ(before_end_, Leaves{});
}

TEST_F(ArrayReducerTest, SlotsAreFullWhereNothingIsGained) {
  const Leaves full = {16, 16, 16, 16};
  Reduce(70 * kLeafElements, 0);
  EXPECT_EQ(before_end_, full) << "the size is not known";
  EXPECT_EQ(at_end_, Leaves{6});
  Reduce(70 * kLeafElements, 70 * kLeafElements, kernels::Algorithm::kWarpShuffle);
  EXPECT_EQ(before_end_, full) << "the bits would change";
  backend_.behaviour.ends_in_start = true;
  Reduce(70 * kLeafElements, 70 * kLeafElements);
  EXPECT_EQ(before_end_, full) << "the device is done when Start returns";
}

TEST_F(ArrayReducerTest, MoreThanIsKnownIsReduced) {
  Reduce(70 * kLeafElements, 20 * kLeafElements);
  EXPECT_EQ(before_end_, (Leaves{10, 5, 3, 2, 16, 16, 16}));
  EXPECT_EQ(at_end_, Leaves{2});
}

}  // namespace
}  // namespace warpfold::server
