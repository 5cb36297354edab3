// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_shared: a warp folds 32 states in shared memory, in halving steps, each with its own condition.
//
// Cell l takes cell l + step, for step = 16, 8, 4, 2, 1; then cell 0 has the result. Lanes below the step
// work, and the others wait.
//
// Published as sumCommSingleWarp, conditional (docs/textbook.md).
//
// Teaches: inside a warp no block barrier is needed, but lanes are not in step by themselves. Since Volta
// each has its own program counter, and only __syncwarp() makes one lane's write visible to the next lane's
// read.
// Bound by: latency of shared memory, two accesses for each of five steps.
// Order: not kept. The first step joins cells 0 and 16.
//
// The published form leaves out the synchronisation and declares the cells volatile, which has been undefined
// since Volta (CUDA C++ Programming Guide, "Independent Thread Scheduling").
#pragma once

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/warp_driver.cuh"

namespace warpfold::kernels::cuda::textbook {

template <class State>
struct WarpSharedFold {
  static constexpr int kCells = kLanes;

  // The whole warp calls this, on its own kCells cells. Returns the folded states in every lane.
  template <Operator Op>
  static __device__ State Fold(const Op& op, const State& state, State* cells) {
    const int lane = threadIdx.x % kLanes;
    cells[lane] = state;
    __syncwarp();
    for (int step = kLanes / 2; step > 0; step /= 2) {
      if (lane < step) cells[lane] = op.Combine(cells[lane], cells[lane + step]);
      __syncwarp();
    }
    const State folded = cells[0];
    __syncwarp();  // the cells may be used again
    return folded;
  }
};

template <Operator Op>
cudaError_t LaunchWarpShared(const OperatorParameters& parameters, const Section& section,
                             const Workspace& workspace, cudaStream_t stream) {
  return LaunchWarpDriver<WarpSharedFold<typename Op::State>, Op>(parameters, section, workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
