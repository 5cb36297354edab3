// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// last_block_ordered: one launch, in array order; the block that finishes last folds the partials.
//
// Each block owns one contiguous part of the section, the last one including the remainder, and folds it as
// single_block_ordered does. The block that draws the last ticket folds the partials, in the order of the
// blocks, with the same scheme.
//
// Published as sumNoncommMultiBlock (docs/textbook.md).
//
// Teaches: order needs contiguous parts, but not that blocks run or finish in order: partial b is in cell b,
// no matter who wrote it and when.
// Bound by: barriers, two for every block-full.
// Order: kept.
//
// Published forms lose the remainder, or fold the partials in the order of the tickets, which is that of
// finishing.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/grid.cuh"
#include "kernels/cuda/textbook/single_block_ordered.cuh"
#include "kernels/cuda/ticket.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    LastBlockOrderedKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials,
                           typename Op::State* result, unsigned* ticket) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  State* const cells = SharedCells<State, 2 * kThreads>();
  const auto count = static_cast<std::int64_t>(input.count());
  const std::int64_t part = count / gridDim.x;
  const std::int64_t begin = blockIdx.x * part;
  const std::int64_t end = blockIdx.x + 1 == gridDim.x ? count : begin + part;
  const State folded = FoldInOrder<kThreads>(op, input, begin, end, cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = folded;

  if (!IsLastBlock(ticket)) return;
  const State all = FoldInOrder<kThreads>(op, Input<Op>(partials, gridDim.x), 0, gridDim.x, cells);
  if (threadIdx.x == 0) *result = all;
}

template <Operator Op>
cudaError_t LaunchLastBlockOrdered(const OperatorParameters& parameters, const Section& section,
                                   const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  constexpr int kThreads = ThreadsFor<State>(1024, /*cells_per_thread=*/2);
  const Input<Op> input(section);
  return LaunchKernel<LastBlockOrderedKernel<Op, kThreads>>(
      {FixedGrid(workspace, input.count(), kThreads, kThreads), kThreads}, stream, parameters, input,
      reinterpret_cast<State*>(workspace.partials), reinterpret_cast<State*>(workspace.nodes),
      workspace.tickets);
}

}  // namespace warpfold::kernels::cuda::textbook
