// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_shared_once: a warp folds 32 states in shared memory, in halving steps with a single condition.
//
// Half of the lanes take part in every step, the others in none. From the second step on, lanes beyond the
// step join cells too: nobody reads what they compute, and their reads stay below cell 24.
//
// Published as sumCommSingleWarp, once-conditional (docs/textbook.md).
//
// Teaches: a condition can be tested once if superfluous work is harmless. The price is a second
// synchronisation in each step, since a lane that works in vain overwrites a cell that another lane still has
// to read. Bound by: latency of shared memory, two accesses for each of five steps. Order: not kept.
//
// The published form has no synchronisation and relies on volatile cells instead, like that of warp_shared.
#pragma once

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/warp_driver.cuh"

namespace warpfold::kernels::cuda::textbook {

template <class State>
struct WarpSharedOnceFold {
  static constexpr int kCells = kLanes;
  static constexpr unsigned kLowerHalf = 0x0000ffffu;

  // The whole warp calls this, on its own kCells cells. Returns the folded states in every lane.
  template <Operator Op>
  static __device__ State Fold(const Op& op, const State& state, State* cells) {
    const int lane = threadIdx.x % kLanes;
    cells[lane] = state;
    __syncwarp();
    if (lane < kLanes / 2) {
      for (int step = kLanes / 2; step > 0; step /= 2) {
        const State sum = op.Combine(cells[lane], cells[lane + step]);
        __syncwarp(kLowerHalf);  // every lane has read before any writes
        cells[lane] = sum;
        __syncwarp(kLowerHalf);
      }
    }
    __syncwarp();
    const State folded = cells[0];
    __syncwarp();  // the cells may be used again
    return folded;
  }
};

template <Operator Op>
cudaError_t LaunchWarpSharedOnce(const OperatorParameters& parameters, const Section& section,
                                 const Workspace& workspace, cudaStream_t stream) {
  return LaunchWarpDriver<WarpSharedOnceFold<typename Op::State>, Op>(parameters, section, workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
