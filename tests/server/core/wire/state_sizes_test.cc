// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many bytes a partial state has on the wire. Clients keep states, and send many of them to Merge: they
// notice if a state grows (docs/adr/0080).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "server/core/wire/state_messages.h"

namespace warpfold::server {
namespace {

using kernels::ElementType;
using kernels::NodePosition;
using kernels::PartialState;
using kernels::ReductionPlan;

// The state of elements from the first leaf after 4,097 to 10^9 + 7. The values of the elements do not
// matter: states have the same size for all.
PartialState LongRange(const ReductionPlan& plan) {
  constexpr std::uint64_t kEnd = 1'000'000'007;
  const std::uint64_t leaf = plan.leaf_elements();
  const std::uint64_t first = (4097 + leaf - 1) / leaf * leaf;
  PartialState state(plan, first);
  const std::vector<std::byte> states(plan.node_bytes());
  for (const NodePosition node : kernels::MaximalSubtrees(first / leaf, (kEnd - first + leaf - 1) / leaf)) {
    const std::uint64_t begin = (node.index << node.level) * leaf;
    state.AppendNode(node, std::min(leaf << node.level, kEnd - begin), states);
  }
  EXPECT_EQ(state.first_element() + state.element_count(), kEnd);
  return state;
}

std::size_t BytesOf(const std::string& op, ElementType type, kernels::ElementShape shape = {}) {
  kernels::ReductionSpec spec;
  spec.operators = {op};
  spec.element_type = type;
  spec.shape = shape;
  return StateToProto(LongRange(ReductionPlan::Create(spec).value())).ByteSizeLong();
}

TEST(StateSizesTest, OneStateForARangeWhereNothingIsRounded) {
  EXPECT_EQ(BytesOf("sum", ElementType::kInt64), 34u);
  EXPECT_EQ(BytesOf("exact_sum", ElementType::kFloat64), 299u);
  EXPECT_EQ(BytesOf("argmax", ElementType::kFloat32), 34u);
  EXPECT_EQ(BytesOf("count_nonzero", ElementType::kFloat32), 26u);
  EXPECT_EQ(BytesOf("describe", ElementType::kInt64), 74u);
  EXPECT_EQ(BytesOf("matrix_product", ElementType::kUint32, {4, 4}), 88u);
  EXPECT_EQ(BytesOf("matrix_product", ElementType::kUint64, {32, 32}), 8217u);
}

TEST(StateSizesTest, AStateForEachNodeWhereBracketsChangeBits) {
  EXPECT_EQ(BytesOf("sum", ElementType::kFloat64), 521u);
  EXPECT_EQ(BytesOf("describe", ElementType::kFloat64), 2009u);
}

}  // namespace
}  // namespace warpfold::server
