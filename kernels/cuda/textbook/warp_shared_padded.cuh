// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_shared_padded: a warp folds 32 states in shared memory, in order, in doubling steps without a
// condition.
//
// After the steps 1, 2, 4, 8, 16 cell l holds the run of 2, 4, 8, 16, 32 states that starts at l. Every lane
// works in every step, and 16 cells of padding, kept at the identity, end the runs of the upper lanes.
//
// Published as sumNoncommSingleWarpPadded (docs/textbook.md).
//
// Teaches: without conditions there is nothing to diverge, and the padding pays for it. On the way every
// suffix of the warp is computed: this is half a scan (Hillis and Steele, "Data Parallel Algorithms", 1986).
// Bound by: latency of shared memory, two accesses for each of five steps. Order: kept.
//
// The published form relies on volatile instead of two __syncwarp() in each step, and pads with 0 whatever
// the operator is.
#pragma once

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/warp_driver.cuh"

namespace warpfold::kernels::cuda::textbook {

template <class State>
struct WarpSharedPaddedFold {
  static constexpr int kPadding = kLanes / 2;
  static constexpr int kCells = kLanes + kPadding;

  // The whole warp calls this, on its own kCells cells; those after the lanes' cells are the identity.
  // Returns the folded states in every lane.
  template <Operator Op>
  static __device__ State Fold(const Op& op, const State& state, State* cells) {
    const int lane = threadIdx.x % kLanes;
    cells[lane] = state;
    __syncwarp();
    for (int step = 1; step < kLanes; step *= 2) {
      const State run = op.Combine(cells[lane], cells[lane + step]);
      __syncwarp();  // every lane has read before any writes
      cells[lane] = run;
      __syncwarp();
    }
    const State folded = cells[0];
    __syncwarp();  // the cells may be used again
    return folded;
  }
};

template <Operator Op>
cudaError_t LaunchWarpSharedPadded(const OperatorParameters& parameters, const Section& section,
                                   const Workspace& workspace, cudaStream_t stream) {
  return LaunchWarpDriver<WarpSharedPaddedFold<typename Op::State>, Op>(parameters, section, workspace,
                                                                        stream);
}

}  // namespace warpfold::kernels::cuda::textbook
