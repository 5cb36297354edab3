// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// warp_first: what the ladder became once lanes could read each other's registers (Luitjens, "Faster Parallel
// Reductions on Kepler", 2014).
//
// Grid-stride accumulation; then each warp folds its lanes with shuffles, one round through shared memory
// passes the warps' results to the first warp, and that warp folds them with shuffles. One more launch of one
// block folds the partials.
//
// reduce7 of the toolkit's reduction sample (docs/textbook.md).
//
// Teaches: the tree with one barrier and a cell per warp, instead of a cell per thread and a barrier per
// step. Bound by: memory. Order: not kept, because of the strides; the shuffles alone would keep it.
//
// Luitjens's shuffles have no masks, without which they no longer compile, and lanes without a warp have 0
// whatever the operator is. The sample's have masks, but its last ones also read lanes that are not in them.
// Here all lanes take part in each, and those without a warp have the identity.
#pragma once

#include "kernels/cuda/textbook/relaunch.cuh"
#include "kernels/cuda/textbook/single_block.cuh"
#include "kernels/cuda/textbook/warp_shuffle.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    WarpFirstKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  using State = typename Op::State;
  using Warp = WarpShuffleFold<State>;
  constexpr int kWarps = kThreads / kLanes;
  const Op op = MakeOperator<Op>(parameters);
  const int warp = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  State* const results = SharedCells<State, kWarps>();

  const State mine = Warp::Fold(op, FoldStridedByGrid<kThreads>(op, input));
  if (lane == 0) results[warp] = mine;
  __syncthreads();
  if (warp != 0) return;
  const State all = Warp::Fold(op, lane < kWarps ? results[lane] : op.Identity());
  if (lane == 0) partials[blockIdx.x] = all;
}

template <Operator Op>
cudaError_t LaunchWarpFirst(const OperatorParameters& parameters, const Section& section,
                            const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return LaunchTwice<Op, WarpFirstKernel<Op, kThreads>>(kThreads, kThreads, parameters, section, workspace,
                                                        stream);
}

}  // namespace warpfold::kernels::cuda::textbook
