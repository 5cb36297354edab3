// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// last_block: one launch; the block that finishes last folds the partials of all.
//
// Each block writes its partial and draws a ticket from a counter in device memory. The block that draws the
// last ticket knows that every partial has been written, and folds them.
//
// Published as sumCommMultiBlock with a last-block guard (docs/textbook.md).
//
// Teaches: one launch can do without a barrier over the grid, because nobody waits: all blocks except one
// simply end. And a flag is not enough: the ticket must release what its block wrote and acquire what the
// others did (kernels/cuda/ticket.cuh; PTX ISA, "Memory Consistency Model"). Bound by: memory; then one
// block's latency over a few hundred partials. Order: not kept.
//
// After the threadFenceReduction sample of the CUDA toolkit. Its counter is shared by all streams. The last
// block resets it to 0 with a separate store, because its atomicInc wraps one too late, at the number of
// blocks. And the counter is not acquired: the last block might read partials from before. Published variants
// also declare a local variable with the name of the grid's size. Here the ticket wraps to zero by itself,
// belongs to one stream's workspace, and the grid's size is gridDim.x and nothing else.
#pragma once

#include "kernels/cuda/textbook/grid.cuh"
#include "kernels/cuda/textbook/single_block.cuh"
#include "kernels/cuda/ticket.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    LastBlockKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials,
                    typename Op::State* result, unsigned* ticket) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  State* const cells = SharedCells<State, kThreads>();
  const State folded = HalvingTree<kThreads>(op, FoldStridedByGrid<kThreads>(op, input), cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = folded;

  if (!IsLastBlock(ticket)) return;
  State state = op.Identity();
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) state = op.Combine(state, partials[i]);
  state = HalvingTree<kThreads>(op, state, cells);
  if (threadIdx.x == 0) *result = state;
}

template <Operator Op>
cudaError_t LaunchLastBlock(const OperatorParameters& parameters, const Section& section,
                            const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  constexpr int kThreads = ThreadsFor<State>(1024);
  const Input<Op> input(section);
  return LaunchKernel<LastBlockKernel<Op, kThreads>>(
      {FixedGrid(workspace, input.count(), kThreads, kThreads), kThreads}, stream, parameters, input,
      reinterpret_cast<State*>(workspace.partials), reinterpret_cast<State*>(workspace.nodes),
      workspace.tickets);
}

}  // namespace warpfold::kernels::cuda::textbook
