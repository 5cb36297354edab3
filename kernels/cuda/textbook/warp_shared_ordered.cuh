// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_shared_ordered: a warp folds 32 states in shared memory, in order, by doubling steps.
//
// After the steps 1, 2, 4, 8, 16 cell l holds the run of 2, 4, 8, 16, 32 states that starts at l: each step
// joins a run with its right neighbour. Two variants: with a condition, only lanes whose run is one of the
// tree's work; without one, every lane works, and 16 cells of padding, kept at the identity, end the runs of
// the upper lanes.
//
// Published as sumNoncommSingleWarp and sumNoncommSingleWarpPadded (docs/textbook.md).
//
// Teaches: turning the steps of warp_shared around is all that order costs. The unconditional variant
// computes every suffix of the warp on the way: it is half a scan (Hillis and Steele, "Data Parallel
// Algorithms", 1986). Bound by: latency of shared memory, two accesses for each of five steps. Order: kept.
//
// Published forms rely on volatile instead of __syncwarp(), and pad with 0 whatever the operator.
#pragma once

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/warp_driver.cuh"

namespace warpfold::kernels::cuda::textbook {

template <class State>
struct WarpSharedOrderedFold {
  static constexpr bool kPadded = sizeof(State) <= 16;  // as WarpSharedFold
  static constexpr int kPadding = kPadded ? kLanes / 2 : 0;
  static constexpr int kCells = kLanes + kPadding;

  // By the whole warp, on kCells cells of its own. Returns the folded states in every lane.
  template <Operator Op>
  static __device__ State Fold(const Op& op, const State& state, State* cells) {
    const int lane = threadIdx.x % kLanes;
    cells[lane] = state;
    if (lane < kPadding) cells[kLanes + lane] = op.Identity();
    __syncwarp();
    if constexpr (kPadded) {
      for (int step = 1; step < kLanes; step *= 2) {
        const State run = op.Combine(cells[lane], cells[lane + step]);
        __syncwarp();  // every lane has read before any writes
        cells[lane] = run;
        __syncwarp();
      }
    } else {
      for (int step = 1; step < kLanes; step *= 2) {
        if (lane % (2 * step) == 0) cells[lane] = op.Combine(cells[lane], cells[lane + step]);
        __syncwarp();
      }
    }
    const State folded = cells[0];
    __syncwarp();  // the cells may be used again
    return folded;
  }
};

template <Operator Op>
cudaError_t LaunchWarpSharedOrdered(const OperatorParameters& parameters, const Section& section,
                                    const Workspace& workspace, cudaStream_t stream) {
  return LaunchWarpDriver<WarpSharedOrderedFold<typename Op::State>, Op>(parameters, section, workspace,
                                                                         stream);
}

}  // namespace warpfold::kernels::cuda::textbook
