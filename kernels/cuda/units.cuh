// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a range of leaves is divided among blocks. The bits of the result do not depend on it.
//
//      edge leaves      units: aligned stretches of 2^unit_level leaves    edge leaves
//   [first_leaf ....)[first_unit ..................... end_unit)[.... first_leaf + leaf_count)
//
// A block takes as many edge leaves as it has warps, or one unit after another. In ReduceKernel the edge
// blocks have the lowest numbers, so that they start first. They end after one leaf, so the unit blocks that
// wait for their places lose little.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/tuning.h"

namespace warpfold::kernels::cuda {

// A number that no leaf has.
inline constexpr std::uint64_t kNoLeaf = ~std::uint64_t{0};

struct UnitPlan {
  std::uint32_t unit_level = 0;
  std::uint64_t first_unit = 0;
  std::uint32_t units = 0;      // far fewer than 2^31 in any device's memory
  std::uint64_t left_edge = 0;  // leaves before the units; all leaves if there are no units
  std::uint64_t right_edge = 0;
  std::uint32_t unit_blocks = 0;  // how many blocks take the units
  bool draws = false;             // whether a block draws its units from the third on, as it finishes others

  __host__ __device__ std::uint64_t edge_leaves() const { return left_edge + right_edge; }
  // The leaf that edge index `i` stands for.
  __host__ __device__ std::uint64_t EdgeLeaf(const Range& range, std::uint64_t i) const {
    return i < left_edge ? range.first_leaf + i : ((first_unit + units) << unit_level) + (i - left_edge);
  }
};

// The shares of `resident_blocks`. Units have the smallest level that results in no more than `many_units`,
// or else the largest level.
inline UnitPlan PlanUnits(const Range& range, std::uint64_t leaf_elements, std::uint32_t smallest_level,
                          std::uint32_t largest_level, std::uint64_t resident_blocks,
                          std::uint64_t many_units = kManyUnits) {
  UnitPlan plan;
  plan.left_edge = range.leaf_count;
  std::uint32_t level = smallest_level;
  while (level < largest_level && (range.leaf_count >> level) > many_units) ++level;
  // A short last leaf is never in a unit: units read without bounds.
  const std::uint64_t full_leaves = range.element_count / leaf_elements;
  const std::uint64_t begin = (range.first_leaf + (std::uint64_t{1} << level) - 1) >> level;
  const std::uint64_t end = (range.first_leaf + full_leaves) >> level;
  if (begin >= end) return plan;
  plan.unit_level = level;
  plan.first_unit = begin;
  plan.units = static_cast<std::uint32_t>(end - begin);
  plan.unit_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.units, resident_blocks));
  plan.draws = plan.units > 2 * plan.unit_blocks;
  if (!plan.draws) {  // as many units for each block
    const std::uint64_t rounds = (plan.units + resident_blocks - 1) / resident_blocks;
    plan.unit_blocks = static_cast<std::uint32_t>((plan.units + rounds - 1) / rounds);
  }
  plan.left_edge = (begin << level) - range.first_leaf;
  plan.right_edge = range.first_leaf + range.leaf_count - (end << level);
  return plan;
}

}  // namespace warpfold::kernels::cuda
