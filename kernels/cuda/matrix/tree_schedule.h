// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which block folds which part, for arrays of matrices: products (matrix_kernel.cuh) and reductions entry by
// entry (entrywise_kernel.cuh). There is no CUDA in here: tests run it on the host. The bits of the result do
// not depend on it.
//
// A leaf of these matrices has at most 32 lanes of at most two elements, or is folded by one thread, so that
// everything above is one balanced binary tree. It is folded in rounds:
//
//   round 0   units, aligned stretches of 2^unit_level leaves, each by one block
//   round r   aligned groups of 2^group_level nodes of round r - 1, each by the block that finishes its last
//             node: none waits for another one
//
// A unit or group that the range fills is a node for the next round. One that extends beyond the range is cut
// into its maximal subtrees: these are maximal in the range, too, and go to the workspace's nodes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"
#include "kernels/operators/portable.h"

namespace warpfold::kernels::cuda {

// Nodes [index << level, (index + 1) << level) of the level from which it is counted.
struct Subtree {
  std::uint32_t level = 0;
  std::uint64_t index = 0;
};

// The largest aligned subtree, of at most 2^most_level nodes, with which [begin, end) begins. One after the
// other, these are the maximal subtrees of a range inside an aligned run.
WARPFOLD_FN Subtree FirstSubtree(std::uint64_t begin, std::uint64_t end, std::uint32_t most_level) {
  std::uint32_t level = 0;
  while (level < most_level && (begin >> level) % 2 == 0 && std::uint64_t{2} << level <= end - begin) ++level;
  return {level, begin >> level};
}

// The number of set bits below `level`.
WARPFOLD_FN std::uint32_t BitsBelow(std::uint64_t x, std::uint32_t level) {
  std::uint32_t bits = 0;
  for (std::uint32_t l = 0; l < level; ++l) bits += x >> l & 1;
  return bits;
}

// The place of a maximal subtree of leaves [first_leaf, end_leaf) among all `count` of them. Those that are
// right children come first, with rising levels, one for each bit of -first_leaf; the others follow, with
// falling levels, one for each bit of end_leaf.
WARPFOLD_FN std::uint32_t PlaceOf(Subtree node, std::uint64_t first_leaf, std::uint64_t end_leaf,
                                  std::uint32_t count) {
  return node.index % 2 == 1 ? BitsBelow(0 - first_leaf, node.level)
                             : count - 1 - BitsBelow(end_leaf, node.level);
}

// The nodes that a round makes and the next one folds: [begin, end) of one level, whose states lie one after
// the other from `base` on, and the groups that they are in, whose tickets begin at `tickets`.
struct TreeRound {
  std::uint32_t level = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t base = 0;
  std::uint64_t tickets = 0;
};

WARPFOLD_FN TreeRound FirstRound(std::uint64_t first_leaf, std::uint64_t end_leaf, std::uint32_t unit_level) {
  const std::uint64_t last = (std::uint64_t{1} << unit_level) - 1;
  return {unit_level, (first_leaf + last) >> unit_level, end_leaf >> unit_level, 0, 0};
}

WARPFOLD_FN TreeRound NextRound(const TreeRound& round, std::uint32_t group_level) {
  const std::uint64_t last = (std::uint64_t{1} << group_level) - 1;
  const std::uint64_t groups = ((round.end - 1) >> group_level) - (round.begin >> group_level) + 1;
  return {round.level + group_level, (round.begin + last) >> group_level, round.end >> group_level,
          round.base + (round.end - round.begin), round.tickets + groups};
}

// The nodes of one group that are in the round.
struct TreeGroup {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

WARPFOLD_FN TreeGroup GroupOf(const TreeRound& round, std::uint64_t group, std::uint32_t group_level) {
  const std::uint64_t begin = group << group_level;
  const std::uint64_t end = (group + 1) << group_level;
  return {begin < round.begin ? round.begin : begin, end < round.end ? end : round.end};
}

struct TreePlan {
  std::uint64_t first_leaf = 0;
  std::uint64_t end_leaf = 0;
  std::uint64_t leaf_bytes = 0;
  std::uint32_t leaf_level = 0;   // a leaf has 2^leaf_level elements
  std::uint32_t unit_level = 0;   // a unit has 2^unit_level leaves
  std::uint32_t group_level = 0;  // a group has 2^group_level nodes
  std::uint32_t parts = 1;        // of each state, folded by different blocks
  std::uint64_t first_unit = 0;   // units of which the range has a part
  std::uint64_t units = 0;

  WARPFOLD_FN std::uint64_t tasks() const { return units * parts; }
};

// The plan for `elements` from the start of leaf `first_leaf` on.
constexpr TreePlan PlanTree(std::uint64_t first_leaf, std::uint64_t elements, std::uint64_t element_bytes,
                            std::uint32_t unit_level, std::uint32_t group_level, std::uint32_t parts) {
  TreePlan plan;
  const std::uint64_t leaf_elements = LeafElements(element_bytes);
  plan.first_leaf = first_leaf;
  plan.end_leaf = first_leaf + (elements + leaf_elements - 1) / leaf_elements;
  plan.leaf_bytes = leaf_elements * element_bytes;
  plan.leaf_level = Log2(static_cast<std::uint32_t>(leaf_elements));
  plan.unit_level = unit_level;
  plan.group_level = group_level;
  plan.parts = parts;
  plan.first_unit = first_leaf >> unit_level;
  plan.units = ((plan.end_leaf - 1) >> unit_level) - plan.first_unit + 1;
  return plan;
}

// The tickets of a launch over `array_bytes`, whose units have at least kSmallestUnitBytes for each of their
// parts. Each round has at most half as many groups as the one before, and up to two that are not full. One
// more ticket is for the draws.
constexpr std::size_t TreeTickets(std::size_t array_bytes) {
  return array_bytes / kSmallestUnitBytes + 2 * 64 + 1;
}

}  // namespace warpfold::kernels::cuda
