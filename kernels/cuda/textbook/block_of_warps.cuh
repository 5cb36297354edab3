// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// block_of_warps: one block, as a tree of warps.
//
// Threads stride through the section as in single_block. Then every warp folds its 32 cells as warp_shared
// does; one barrier later the first warp folds the warps' results in the same way, and that is all: 32 warps
// of 32 lanes make two levels.
//
// Published as sumCommSingleBlockWithWarps (docs/textbook.md).
//
// Teaches: what a block barrier costs, by using one instead of the eleven of a halving tree over 1024
// threads.
// Bound by: one multiprocessor's loads in flight, like single_block; the tree no longer matters.
// Order: not kept.
//
// The published form lets the first warp read the warps' results without a barrier, and assumes 32 warps.
// Here lanes beyond the number of warps contribute the identity.
#pragma once

#include "kernels/cuda/textbook/single_block.cuh"
#include "kernels/cuda/textbook/warp_shared.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    BlockOfWarpsKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* result) {
  using State = typename Op::State;
  using Warp = WarpSharedFold<State>;
  constexpr int kWarps = kThreads / kLanes;
  const Op op = MakeOperator<Op>(parameters);
  // This comes before anything else is in a register: then all sixteen loads of a round are in flight at
  // once.
  const State strided = FoldStrided(op, input, threadIdx.x, kThreads);
  const int warp = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  State* const results = SharedCells<State, kWarps>();
  State* const cells = SharedCells<State, kWarps * Warp::kCells>() + warp * Warp::kCells;

  const State mine = Warp::Fold(op, strided, cells);
  if (lane == 0) results[warp] = mine;
  __syncthreads();
  if (warp != 0) return;
  const State all = Warp::Fold(op, lane < kWarps ? results[lane] : op.Identity(), cells);
  if (lane == 0) *result = all;
}

template <Operator Op>
cudaError_t LaunchBlockOfWarps(const OperatorParameters& parameters, const Section& section,
                               const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  constexpr int kThreads = ThreadsFor<State>(1024);
  return LaunchKernel<BlockOfWarpsKernel<Op, kThreads>>({1, kThreads}, stream, parameters, Input<Op>(section),
                                                        reinterpret_cast<State*>(workspace.nodes));
}

}  // namespace warpfold::kernels::cuda::textbook
