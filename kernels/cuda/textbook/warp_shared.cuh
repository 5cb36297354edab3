// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_shared: a warp folds 32 states in shared memory, by halving steps.
//
// Cell l takes cell l + step, for step = 16, 8, 4, 2, 1; then cell 0 has all. Two variants: with a condition,
// lanes below the step work and the others wait; without one, every lane works, those above compute what
// nobody reads, and 16 cells of padding keep their reads in bounds.
//
// Published as sumCommSingleWarp, in both variants (docs/textbook.md).
//
// Teaches: inside a warp no block barrier is needed, but lanes are not in step by nature. Since Volta each
// has its own program counter, and only __syncwarp() makes one lane's write visible to the next lane's read.
// Bound by: latency of shared memory, two accesses for each of five steps.
// Order: not kept. The first step joins cells 0 and 16.
//
// The published form leaves out both synchronisations and declares the cells volatile, which has been
// undefined since Volta (CUDA C++ Programming Guide, "Independent Thread Scheduling"), and leaves the padding
// uninitialised.
#pragma once

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/warp_driver.cuh"

namespace warpfold::kernels::cuda::textbook {

template <class State>
struct WarpSharedFold {
  // Padding is cheap for small states; large ones would pay for it with threads.
  static constexpr bool kPadded = sizeof(State) <= 16;
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
      for (int step = kLanes / 2; step > 0; step /= 2) {
        const State sum = op.Combine(cells[lane], cells[lane + step]);
        __syncwarp();  // every lane has read before any writes
        cells[lane] = sum;
        __syncwarp();
      }
    } else {
      for (int step = kLanes / 2; step > 0; step /= 2) {
        if (lane < step) cells[lane] = op.Combine(cells[lane], cells[lane + step]);
        __syncwarp();
      }
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
