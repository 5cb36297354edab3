// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Places in the tree over an array's leaves (docs/canonical-order.md). No abseil: nvcc compiles this.
#pragma once

#include <cstdint>
#include <vector>

namespace warpfold::kernels {

// A complete subtree: leaves [index << level, (index + 1) << level).
struct NodePosition {
  std::uint32_t level = 0;
  std::uint64_t index = 0;
  friend bool operator==(NodePosition a, NodePosition b) = default;
};

// A range has at most two maximal subtrees of each level, and there are fewer than 64 levels.
inline constexpr int kMaxStateNodes = 2 * 64;

// The positions of the maximal complete subtrees of leaves [first, first + count), in order.
std::vector<NodePosition> MaximalSubtrees(std::uint64_t first_leaf, std::uint64_t leaf_count);

}  // namespace warpfold::kernels
