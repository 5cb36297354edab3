// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Partial states: their nodes, their transfer, and which states are rejected.
#include "kernels/partial_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kLeaf = 1024;  // of float32

ReductionSpec SumOfFloats() {
  ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = ElementType::kFloat32;
  return spec;
}

ReductionPlan PlanOf(const ReductionSpec& spec) { return ReductionPlan::Create(spec).value(); }

PartialState Range(const ReductionSpec& spec, std::uint64_t first, std::uint64_t count) {
  Random random(first);
  const std::vector<std::byte> data =
      RandomElements(spec.element_type, count * spec.shape.entries(), Flavour::kTame, random);
  return ReduceOnHost(PlanOf(spec), first, data);
}

// The state that arrives when this one is sent.
absl::StatusOr<PartialState> Sent(const PartialState& state) {
  const ReductionPlan& reduction = state.reduction();
  const std::size_t by_node = reduction.by_node_bytes();
  std::vector<std::byte> node_states(state.nodes().size() * by_node);
  std::vector<std::byte> range_states(state.element_count() == 0 ? 0 : reduction.node_bytes() - by_node);
  for (std::size_t op = 0; op < reduction.operators().size(); ++op) {
    const BoundOperator& bound = reduction.operators()[op];
    for (std::size_t i = 0; i < StateCount(state, op); ++i) {
      const std::span<const std::byte> bytes = OperatorState(state, i, op);
      std::byte* const to = bound.by_node ? node_states.data() + i * by_node + bound.state_offset
                                          : range_states.data() + bound.state_offset - by_node;
      std::copy(bytes.begin(), bytes.end(), to);
    }
  }
  return PartialState::Create(reduction, state.first_element(), state.element_count(), state.nodes(),
                              node_states, range_states);
}

void ExpectPossible(const PartialState& state) {
  const absl::StatusOr<PartialState> copy = Sent(state);
  ASSERT_TRUE(copy.ok()) << copy.status();
}

void ExpectBadState(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(status), "BAD_STATE") << status;
}

// Whether leaves [first, end) hold all leaves of the node.
bool Holds(std::uint64_t first, std::uint64_t end, NodePosition node) {
  return node.index << node.level >= first && (node.index + 1) << node.level <= end;
}

TEST(MaximalSubtreesTest, AreMaximalAndCoverTheRange) {
  for (std::uint64_t first = 0; first <= 40; ++first) {
    for (std::uint64_t end = first; end <= 40; ++end) {
      std::uint64_t next = first;
      for (const NodePosition node : MaximalSubtrees(first, end - first)) {
        ASSERT_EQ(node.index << node.level, next);
        ASSERT_TRUE(Holds(first, end, node));
        ASSERT_FALSE(Holds(first, end, {node.level + 1, node.index / 2}));
        next = (node.index + 1) << node.level;
      }
      ASSERT_EQ(next, end);
    }
  }
}

TEST(MaximalSubtreesTest, OfTheDocumentsExample) {
  EXPECT_THAT(MaximalSubtrees(3, 6), ElementsAre(NodePosition{0, 3}, NodePosition{2, 1}, NodePosition{0, 8}));
  EXPECT_THAT(MaximalSubtrees(3, 0), IsEmpty());
}

TEST(PartialStateTest, SurvivesTheWire) {
  for (const Subject& subject : AllSubjects()) {
    SCOPED_TRACE(subject.name);
    const std::uint64_t leaf = PlanOf(subject.spec).leaf_elements();
    const PartialState state = Range(subject.spec, 3 * leaf, 5 * leaf + 1);
    const absl::StatusOr<PartialState> copy = Sent(state);
    ASSERT_TRUE(copy.ok()) << copy.status();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*copy, state));
    EXPECT_EQ(Describe(copy->Finish(0)), Describe(state.Finish(0)));
  }
}

// A rule about what is possible must not reject what operators write, for any elements, merged or not.
TEST(PartialStateTest, WhatAnyElementsGiveIsPossible) {
  Random random;
  for (const Subject& subject : AllSubjects()) {
    SCOPED_TRACE(subject.name);
    const ReductionPlan reduction = PlanOf(subject.spec);
    const std::uint64_t leaf = reduction.leaf_elements();
    for (const Flavour flavour : kFlavours) {
      PartialState whole(reduction, leaf);
      for (const std::uint64_t count : {2 * leaf, leaf, std::uint64_t{1}}) {
        const std::vector<std::byte> data =
            RandomElements(subject.spec.element_type, count * subject.spec.shape.entries(), flavour, random);
        const PartialState range = ReduceOnHost(reduction, leaf + whole.element_count(), data);
        ASSERT_TRUE(whole.Append(range).ok());
        ASSERT_NO_FATAL_FAILURE(ExpectPossible(range));
        ASSERT_NO_FATAL_FAILURE(ExpectPossible(whole));
      }
    }
  }
}

// Few elements come near the bounds that a state must keep.
TEST(PartialStateTest, WhatFewElementsGiveIsPossible) {
  Random random;
  for (const Subject& subject : AllSubjects()) {
    SCOPED_TRACE(subject.name);
    const ReductionPlan reduction = PlanOf(subject.spec);
    for (const Flavour flavour : kFlavours) {
      for (std::uint64_t count = 1; count < 40; count += 1 + count / 8) {
        const std::vector<std::byte> data =
            RandomElements(subject.spec.element_type, count * subject.spec.shape.entries(), flavour, random);
        ASSERT_NO_FATAL_FAILURE(ExpectPossible(ReduceOnHost(reduction, reduction.leaf_elements(), data)));
      }
    }
  }
}

TEST(PartialStateTest, WhatNothingButNanGivesIsPossible) {
  for (const Subject& subject : AllSubjects()) {
    SCOPED_TRACE(subject.name);
    const ReductionPlan reduction = PlanOf(subject.spec);
    // NaN as a float of any width.
    const std::vector<std::byte> ones(3 * reduction.leaf_bytes(), std::byte{0xff});
    ASSERT_NO_FATAL_FAILURE(ExpectPossible(ReduceOnHost(reduction, reduction.leaf_elements(), ones)));
  }
}

TEST(PartialStateTest, AssociativeOperatorsHaveOneStateBesideThoseOfNodes) {
  ReductionSpec spec;
  spec.operators = {"max", "sum", "exact_sum", "product"};
  spec.element_type = ElementType::kFloat64;
  const ReductionPlan reduction = PlanOf(spec);
  const auto operators = reduction.operators();
  EXPECT_FALSE(operators[0].by_node);
  EXPECT_TRUE(operators[1].by_node);
  EXPECT_FALSE(operators[2].by_node);
  EXPECT_TRUE(operators[3].by_node);
  // The states at nodes come first.
  EXPECT_EQ(reduction.by_node_bytes(), 32u);
  EXPECT_EQ(operators[3].state_offset, 16u);
  EXPECT_EQ(operators[0].state_offset, 32u);
  const PartialState state = Range(spec, 3 * 512, 5 * 512 + 1);
  EXPECT_EQ(state.nodes().size(), 3u);
  EXPECT_EQ(state.RangeState(2).size(), 280u);
  ASSERT_NO_FATAL_FAILURE(ExpectPossible(state));

  spec.operators = {"max", "exact_sum"};
  EXPECT_THAT(Range(spec, 3 * 512, 5 * 512 + 1).nodes(), IsEmpty());
}

class CreateTest : public testing::Test {
 protected:
  absl::Status Create(std::uint64_t first, std::uint64_t count, const std::vector<NodePosition>& nodes,
                      std::size_t state_bytes) {
    const std::vector<std::byte> states(state_bytes);
    return PartialState::Create(PlanOf(SumOfFloats()), first, count, nodes, states, {}).status();
  }
  const std::size_t node_bytes_ = PlanOf(SumOfFloats()).node_bytes();
};

TEST_F(CreateTest, TakesWhatTheRangeHas) {
  EXPECT_TRUE(Create(3 * kLeaf, 5 * kLeaf + 1, {{0, 3}, {2, 1}, {0, 8}}, 3 * node_bytes_).ok());
  EXPECT_TRUE(Create(kLeaf, 0, {}, 0).ok());
}

TEST_F(CreateTest, RefusesOtherNodes) {
  ExpectBadState(Create(3 * kLeaf, 5 * kLeaf + 1, {{0, 3}, {2, 1}}, 2 * node_bytes_));
  ExpectBadState(Create(3 * kLeaf, 5 * kLeaf + 1, {{0, 3}, {2, 1}, {0, 8}, {0, 9}}, 4 * node_bytes_));
  ExpectBadState(Create(3 * kLeaf, 5 * kLeaf + 1, {{0, 3}, {0, 8}, {2, 1}}, 3 * node_bytes_));
  ExpectBadState(Create(3 * kLeaf, 5 * kLeaf + 1, {{0, 3}, {2, 2}, {0, 8}}, 3 * node_bytes_));
  ExpectBadState(Create(0, 2 * kLeaf, {{0, 0}, {0, 1}}, 2 * node_bytes_));
  ExpectBadState(Create(0, 0, {{0, 0}}, node_bytes_));
  ExpectBadState(Create(0, kLeaf, {}, 0));
  ExpectBadState(Create(0, kLeaf, {{64, 0}}, node_bytes_));
  ExpectBadState(Create(0, kLeaf, std::vector<NodePosition>(1000, {0, 0}), 1000 * node_bytes_));
}

TEST_F(CreateTest, RefusesStatesOfAnotherSize) {
  ExpectBadState(Create(0, kLeaf, {{0, 0}}, node_bytes_ - 1));
  ExpectBadState(Create(0, kLeaf, {{0, 0}}, node_bytes_ + 1));
  ExpectBadState(Create(0, kLeaf, {{0, 0}}, 0));
}

TEST_F(CreateTest, RefusesStatesOfTheOtherKind) {
  const ReductionPlan floats = PlanOf(SumOfFloats());
  const std::vector<std::byte> state(16);
  const NodePosition first_leaf[] = {{0, 0}};
  ExpectBadState(PartialState::Create(floats, 0, 1, first_leaf, state, state).status());
  ExpectBadState(PartialState::Create(floats, 0, 1, {}, {}, state).status());
  ReductionSpec spec = SumOfFloats();
  spec.element_type = ElementType::kInt32;
  const ReductionPlan integers = PlanOf(spec);
  EXPECT_TRUE(PartialState::Create(integers, 0, 1, {}, {}, state).ok());
  ExpectBadState(PartialState::Create(integers, 0, 1, first_leaf, {}, state).status());
  ExpectBadState(PartialState::Create(integers, 0, 1, first_leaf, state, {}).status());
  ExpectBadState(PartialState::Create(integers, 0, 1, {}, {}, {}).status());
  ExpectBadState(PartialState::Create(integers, 0, 0, {}, {}, state).status());
}

TEST_F(CreateTest, RefusesImpossibleRanges) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kMaxElements = kMaxArrayBytes / sizeof(float);
  ExpectBadState(Create(1, kLeaf, {{0, 0}}, node_bytes_));
  ExpectBadState(Create(kLeaf, kLargest, {{0, 1}}, node_bytes_));
  ExpectBadState(Create(kLargest - kLeaf + 1, kLeaf - 1, {{0, kLargest / kLeaf}}, node_bytes_));
  ExpectBadState(Create(kMaxElements, kLeaf, {{0, kMaxElements / kLeaf}}, node_bytes_));
  ExpectBadState(Create(kMaxElements, 1, {{0, kMaxElements / kLeaf}}, node_bytes_));
  const std::uint64_t last_leaf = kMaxElements - kLeaf;
  EXPECT_TRUE(Create(last_leaf, kLeaf, {{0, last_leaf / kLeaf}}, node_bytes_).ok());
}

TEST_F(CreateTest, TakesTheLargestArrayAndCountsItRight) {
  constexpr std::uint64_t kMaxElements = kMaxArrayBytes / sizeof(float);
  constexpr std::uint32_t kLevel = 62 - 12;  // 2^62 bytes are 2^50 leaves
  EXPECT_TRUE(Create(0, kMaxElements, {{kLevel, 0}}, node_bytes_).ok());
  ExpectBadState(Create(0, kMaxElements + 1, {{kLevel, 0}, {0, kMaxElements / kLeaf}}, 2 * node_bytes_));

  const std::vector<std::byte> states(node_bytes_);
  const NodePosition right[] = {{kLevel - 1, 1}};
  const NodePosition left[] = {{kLevel - 1, 0}};
  const ReductionPlan reduction = PlanOf(SumOfFloats());
  PartialState merged = PartialState::Create(reduction, 0, kMaxElements / 2, left, states, {}).value();
  ASSERT_TRUE(
      merged
          .Append(
              PartialState::Create(reduction, kMaxElements / 2, kMaxElements / 2, right, states, {}).value())
          .ok());
  EXPECT_EQ(merged.element_count(), kMaxElements);
  EXPECT_THAT(merged.nodes(), ElementsAre(NodePosition{kLevel, 0}));
}

TEST(AppendTest, RefusesGapsAndOverlapsAndLeavesTheStateAsItWas) {
  PartialState state = Range(SumOfFloats(), 2 * kLeaf, 3 * kLeaf);
  const PartialState before = state;
  ExpectBadState(state.Append(Range(SumOfFloats(), 6 * kLeaf, kLeaf)));
  ExpectBadState(state.Append(Range(SumOfFloats(), 4 * kLeaf, kLeaf)));
  ExpectBadState(state.Append(Range(SumOfFloats(), 2 * kLeaf, 3 * kLeaf)));
  ExpectBadState(state.Append(Range(SumOfFloats(), 0, 2 * kLeaf)));
  ExpectSame(state, before);
  EXPECT_TRUE(state.Append(Range(SumOfFloats(), 5 * kLeaf, 7)).ok());
}

TEST(AppendTest, RefusesToContinueAShortLeaf) {
  PartialState state = Range(SumOfFloats(), 0, kLeaf + 1);
  ExpectBadState(state.Append(Range(SumOfFloats(), 2 * kLeaf, kLeaf)));
  ExpectBadState(state.Append(Range(SumOfFloats(), kLeaf, kLeaf)));
}

TEST(AppendTest, TakesEmptyRanges) {
  PartialState state = Range(SumOfFloats(), 0, kLeaf + 1);
  const PartialState before = state;
  EXPECT_TRUE(state.Append(PartialState(PlanOf(SumOfFloats()), 2 * kLeaf)).ok());
  ExpectSame(state, before);
}

TEST(AppendTest, RefusesOtherReductions) {
  PartialState state = Range(SumOfFloats(), 0, kLeaf);
  const auto with = [](auto change) {
    ReductionSpec spec = SumOfFloats();
    change(spec);
    return Range(spec, PlanOf(spec).leaf_elements(), 1);
  };
  ExpectBadState(state.Append(with([](ReductionSpec& s) { s.operators = {"product"}; })));
  ExpectBadState(state.Append(with([](ReductionSpec& s) { s.operators.push_back("max"); })));
  ExpectBadState(state.Append(with([](ReductionSpec& s) { s.element_type = ElementType::kInt32; })));
  ExpectBadState(state.Append(with([](ReductionSpec& s) { s.ignore_nan = true; })));
  ExpectBadState(state.Append(with([](ReductionSpec& s) { s.shape = {1, 1}; })));

  ReductionSpec product;
  product.operators = {"matrix_product"};
  product.element_type = ElementType::kInt32;
  product.shape = {1, 1};
  product.modulus = 7;
  PartialState residues = Range(product, 0, kLeaf);
  product.modulus = 11;
  ExpectBadState(residues.Append(Range(product, kLeaf, 1)));
}

// Any bytes are rejected, or are a state: the worst that they may do is to give a wrong value to the client
// that sent them.
TEST(PartialStateTest, AnyBytesAreHandled) {
  Random random;
  int refused = 0;
  int taken = 0;
  for (const Subject& subject : AllSubjects()) {
    SCOPED_TRACE(subject.name);
    const ReductionPlan reduction = PlanOf(subject.spec);
    for (int round = 0; round < 8; ++round) {
      const std::uint64_t leaves = 1 + random() % 6;
      const std::size_t by_node = reduction.by_node_bytes();
      std::vector<NodePosition> nodes;
      if (by_node > 0) nodes = MaximalSubtrees(1, leaves);
      const ElementType as = round % 2 == 0 ? subject.spec.element_type : ElementType::kFloat64;
      const auto any_bytes = [&](std::size_t bytes) {
        return RandomElements(as, bytes / ElementTypeBytes(as),
                              round < 4 ? Flavour::kBits : Flavour::kExtreme, random);
      };
      const std::uint64_t leaf = reduction.leaf_elements();
      const absl::StatusOr<PartialState> state =
          PartialState::Create(reduction, leaf, leaves * leaf, nodes, any_bytes(nodes.size() * by_node),
                               any_bytes(reduction.node_bytes() - by_node));
      if (!state.ok()) {
        ++refused;
        ExpectBadState(state.status());
        continue;
      }
      ++taken;
      PartialState merged = Range(subject.spec, 0, leaf);
      ASSERT_TRUE(merged.Append(*state).ok());
      for (const absl::StatusOr<OperatorValue>& value : {state->Finish(0), merged.Finish(0)}) {
        if (!value.ok()) continue;
        for (const Scalar& entry : value->entries) {
          if (entry.kind != Scalar::Kind::kDouble || !std::isnan(entry.double_value)) continue;
          std::uint64_t bits;
          std::memcpy(&bits, &entry.double_value, sizeof bits);
          ASSERT_EQ(bits, 0x7ff8000000000000u);
        }
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace warpfold::kernels
