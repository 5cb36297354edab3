// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_shared_ordered: a warp folds 32 states in shared memory, in order, in doubling steps, each with its
// own condition.
//
// After the steps 1, 2, 4, 8, 16 every cell whose index is a multiple of 2, 4, 8, 16, 32 holds the run of
// that length that starts at it: each step joins such a run with its right neighbour.
//
// Published as sumNoncommSingleWarp (docs/textbook.md).
//
// Teaches: reversing the steps of warp_shared is all that order costs.
// Bound by: latency of shared memory, two accesses for each of five steps. Order: kept.
//
// The published form relies on volatile instead of __syncwarp().
#pragma once

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/warp_driver.cuh"

namespace warpfold::kernels::cuda::textbook {

template <class State>
struct WarpSharedOrderedFold {
  static constexpr int kCells = kLanes;

  // The whole warp calls this, on its own kCells cells. Returns the folded states in every lane.
  template <Operator Op>
  static __device__ State Fold(const Op& op, const State& state, State* cells) {
    const int lane = threadIdx.x % kLanes;
    cells[lane] = state;
    __syncwarp();
    for (int step = 1; step < kLanes; step *= 2) {
      if (lane % (2 * step) == 0) cells[lane] = op.Combine(cells[lane], cells[lane + step]);
      __syncwarp();
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
