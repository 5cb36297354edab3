// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How first and last find their elements: by the places of nodes in the whole array.
#include "kernels/cuda/ends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/nodes.h"
#include "proto/leaf.h"

namespace warpfold::kernels::simt {
namespace {

void CheckEnds(std::uint64_t element_bytes, const Range& range) {
  const std::uint64_t leaf = LeafElements(element_bytes);
  const std::uint64_t first = range.first_leaf * leaf;
  const std::vector<NodePosition> nodes = MaximalSubtrees(range.first_leaf, range.leaf_count);
  const EndOffsets firsts = OffsetsOfEnds(element_bytes, true, range);
  const EndOffsets lasts = OffsetsOfEnds(element_bytes, false, range);
  ASSERT_EQ(firsts.nodes, nodes.size());
  ASSERT_EQ(lasts.nodes, nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint64_t begin = (nodes[i].index << nodes[i].level) * leaf;
    const std::uint64_t end = std::min(begin + (leaf << nodes[i].level), first + range.element_count);
    EXPECT_EQ(firsts.bytes[i], (begin - first) * element_bytes) << i;
    EXPECT_EQ(lasts.bytes[i], (end - 1 - first) * element_bytes) << i;
  }
}

TEST(EndsTest, AreThoseOfEachNode) {
  std::mt19937_64 random(7);
  for (const std::uint64_t bytes : {1, 2, 4, 8}) {
    const std::uint64_t leaf = LeafElements(bytes);
    for (int i = 0; i < 1000; ++i) {
      Range range;
      range.first_leaf = random() >> (24 + random() % 40);
      range.leaf_count = 1 + (random() >> (30 + random() % 33));
      const std::uint64_t short_by = random() % 2 == 0 ? 0 : random() % leaf;
      range.element_count = range.leaf_count * leaf - short_by;
      ASSERT_NO_FATAL_FAILURE(CheckEnds(bytes, range)) << range.first_leaf << " " << range.leaf_count;
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels::simt
