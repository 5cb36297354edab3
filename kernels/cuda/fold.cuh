// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a reduction: the last block to finish folds all partials into the range's maximal subtrees.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/node_folder.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/units.cuh"
#include "kernels/cuda/warp_folder.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cuda {

// WarpFolder is faster for small states, but all lanes combine at every level, including lanes whose result
// is discarded. NodeFolder combines only what is needed; it is used for large states and for operators with a
// modulus, whose Combine is expensive.
template <class Op, bool kHasModulus = false>
using FolderFor = std::conditional_t<sizeof(typename Op::State) <= kMaxWarpFoldedBytes && !kHasModulus,
                                     WarpFolder<Op>, NodeFolder<Op>>;

// Folds the partials of a launch: those of edge leaves, which start at `edges`, and those of units after
// them.
//
// The left edge, the right edge and the units are one loop, so that the code of a Fold exists only once: it
// accounts for most of the time that this kernel takes to compile, and each launch fetches it.
template <class Folder, Operator Op>
__device__ __forceinline__ void FoldPartials(const Op& op, const Range& range, const UnitPlan& plan,
                                             const Workspace& workspace, typename Op::State* edges) {
  using State = typename Op::State;
  WARPFOLD_SHARED(std::byte, shared, [Folder::kSharedBytes]);
  // There are 1,024 bytes per leaf in ranges of up to DeviceReducer's array_bytes. A state for each leaf, and
  // a third more for those that they are folded into, take at most 512 * 4 / 3 = 683 of these.
  // DeviceReducer::Capacity says what longer ranges need.
  static_assert(sizeof(State) <= 512);
  State* const units = edges + plan.edge_leaves();
  Folder folder(op, workspace, reinterpret_cast<State*>(shared), units + plan.units + 1);
  const std::uint64_t end_unit = plan.first_unit + plan.units;
  // If there are no units, all leaves are the left edge.
  const int stretches = plan.units > 0 ? 3 : 1;
  bool one_more = false;
#pragma unroll 1
  for (int stretch = 0; stretch < stretches; ++stretch) {
    const bool is_left = stretch == 0;
    const bool is_right = stretch == 1;
    State* const states = is_left ? edges : is_right ? edges + plan.left_edge : units;
    std::uint64_t begin = is_left    ? range.first_leaf
                          : is_right ? end_unit << plan.unit_level
                                     : plan.first_unit;
    std::uint64_t end = begin + (is_left    ? plan.left_edge
                                 : is_right ? plan.right_edge
                                            : plan.units + one_more);
    const std::uint32_t levels = stretch + 1 < stretches ? plan.unit_level : kTreeLevels;
    const State rest = folder.Fold(states, begin, end, levels, is_right ? Side::kBack : Side::kFront);
    // A right edge that ends in a short leaf may have as many leaves as a unit. Then it is one more unit,
    // which is stored after the others.
    if (is_right && begin < end) {
      one_more = true;
      if (threadIdx.x == 0) units[plan.units] = rest;
      __syncthreads();
    }
  }
}

}  // namespace warpfold::kernels::cuda
