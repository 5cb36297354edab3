// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_shuffle: a warp folds 32 states in registers.
//
// Each lane receives the state of the lane 1, 2, 4, 8, 16 to its right and joins it to its own, on the left;
// after five steps lane 0 has all 32 and broadcasts them. Lanes too far to the right to have a partner
// receive their own state back: what they then compute never reaches lane 0.
//
// Published as sumSingleWarpReg (docs/textbook.md).
//
// Teaches: lanes can read each other's registers; no memory, no barrier. The mask names the lanes that take
// part, and the shuffle itself brings them together.
// Bound by: shuffles, one for each 8 bytes of a state and step.
// Order: kept. Doubling steps join adjacent runs, and so serve operators that are not commutative as well;
// the halving steps of most published forms serve only commutative ones.
//
// The published form has no mask, and no longer compiles.
#pragma once

#include "kernels/cuda/textbook/warp_driver.cuh"
#include "kernels/cuda/warp.cuh"

namespace warpfold::kernels::cuda::textbook {

template <class State>
struct WarpShuffleFold {
  static constexpr int kCells = 0;

  // The whole warp calls this. Returns the folded states in every lane.
  template <Operator Op>
  static __device__ State Fold(const Op& op, State state, State* = nullptr) {
    // If unrolled, states of more than 8 bytes would take registers that loads need more.
#pragma unroll(sizeof(State) > 8 ? 1 : 5)
    for (int step = 1; step < kLanes; step *= 2) state = op.Combine(state, ShuffleDown(state, step));
    return ShuffleFrom(state, 0);
  }
};

template <Operator Op>
cudaError_t LaunchWarpShuffle(const OperatorParameters& parameters, const Section& section,
                              const Workspace& workspace, cudaStream_t stream) {
  return LaunchWarpDriver<WarpShuffleFold<typename Op::State>, Op>(parameters, section, workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
