// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// cooperative_grid: one launch with a barrier over the whole grid.
//
// Grid-stride accumulation and a partial per block; then all blocks wait for each other, and the first one
// folds the partials.
//
// Published as reduceSinglePassMultiBlockCG (docs/textbook.md).
//
// Teaches: a barrier over the grid needs all blocks on the device at once, since one that waits never makes
// room for one that has not begun. Only a cooperative launch guarantees that, and it refuses a grid that does
// not fit, so the size of the grid comes from the occupancy calculator. Bound by: memory; then the barrier,
// about a microsecond or two. last_block does the same without waiting. Order: not kept.
//
// Hand-written barriers over a grid (a counter that all blocks spin on) hang as soon as one block does not
// fit.
#pragma once

#if !defined(WARPFOLD_SIMT)
#include <cooperative_groups.h>
#endif

#include <algorithm>

#include "kernels/cuda/textbook/grid.cuh"
#include "kernels/cuda/textbook/single_block.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    CooperativeGridKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials,
                          typename Op::State* result) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  State* const cells = SharedCells<State, kThreads>();
  const State folded = HalvingTree<kThreads>(op, FoldStridedByGrid<kThreads>(op, input), cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = folded;

  cooperative_groups::this_grid().sync();
  if (blockIdx.x != 0) return;
  State state = op.Identity();
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) state = op.Combine(state, partials[i]);
  state = HalvingTree<kThreads>(op, state, cells);
  if (threadIdx.x == 0) *result = state;
}

template <Operator Op>
cudaError_t LaunchCooperativeGrid(const OperatorParameters& parameters, const Section& section,
                                  const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  constexpr int kThreads = ThreadsFor<State>(256);
  int resident = 0;  // blocks on one multiprocessor
  const cudaError_t error = ResidentBlocks<CooperativeGridKernel<Op, kThreads>>(kThreads, &resident);
  if (error != cudaSuccess) return error;
  const Input<Op> input(section);
  const unsigned blocks =
      std::min(FixedGrid(workspace, input.count(), kThreads, kThreads), resident * workspace.multiprocessors);
  return LaunchCooperatively<CooperativeGridKernel<Op, kThreads>>(
      {blocks, kThreads}, stream, parameters, input, reinterpret_cast<State*>(workspace.partials),
      reinterpret_cast<State*>(workspace.nodes));
}

}  // namespace warpfold::kernels::cuda::textbook
