// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// single_block_ordered: one block reduces everything, in array order.
//
// Shared memory has twice as many cells as the block has threads. The lower half holds the states so far, in
// array order; each round loads the next block-full of items into the upper half and folds adjacent cells:
// cell t becomes cell 2t joined with cell 2t + 1, for all t of the lower half at once. Old states move down
// and new ones arrive above them, so the cells stay in array order. When nothing is left to load, strides 1,
// 2, 4, ... fold the lower half.
//
// Published as sumNoncommSingleBlock (docs/textbook.md).
//
// Teaches: associativity alone is enough to run in parallel. Only adjacent states are ever joined, left
// before right, so matrices may be multiplied like this.
// Bound by: two barriers per round, and one multiprocessor.
// Order: kept.
//
// Published forms pad the last round with 0, which turns every matrix product into zero, and fold in place
// without a barrier between reading a pair and writing over it. Here the padding is the operator's identity
// and every thread has read its pair before any thread writes.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/input.cuh"

namespace warpfold::kernels::cuda::textbook {

// Returns items [begin, end), folded in order by the whole block; in every thread. `cells` has room for twice
// kThreads states, which may be written to again after the block's next barrier. Indices are signed, as in
// FoldStrided (single_block.cuh).
template <int kThreads, Operator Op>
__device__ typename Op::State FoldInOrder(const Op& op, const Input<Op>& input, std::int64_t begin,
                                          std::int64_t end, typename Op::State* cells) {
  using State = typename Op::State;
  const int t = threadIdx.x;
  // Puts a block-full above the states so far, and folds adjacent cells.
  const auto join = [&](const State& item) {
    cells[kThreads + t] = item;
    __syncthreads();
    const State pair = op.Combine(cells[2 * t], cells[2 * t + 1]);
    __syncthreads();
    cells[t] = pair;
  };
  input.With([&](const auto& items) {
    const std::int64_t count = end - begin;
    cells[t] = t < count ? items.At(op, begin + t) : op.Identity();
    // Whole block-fulls first: their loads have no condition.
    std::int64_t next = kThreads;
#pragma unroll 4
    for (; next <= count - kThreads; next += kThreads) join(items.At(op, begin + next + t));
    if (next < count) join(next + t < count ? items.At(op, begin + next + t) : op.Identity());
  });
  __syncthreads();
#pragma unroll 1
  for (int stride = 1; stride < kThreads; stride *= 2) {
    const int left = 2 * stride * t;
    if (left < kThreads) cells[left] = op.Combine(cells[left], cells[left + stride]);
    __syncthreads();
  }
  return cells[0];
}

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    SingleBlockOrderedKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* result) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, 2 * kThreads>();
  const auto folded = FoldInOrder<kThreads>(op, input, 0, input.count(), cells);
  if (threadIdx.x == 0) *result = folded;
}

template <Operator Op>
cudaError_t LaunchSingleBlockOrdered(const OperatorParameters& parameters, const Section& section,
                                     const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  constexpr int kThreads = ThreadsFor<State>(1024, /*cells_per_thread=*/2);
  return LaunchKernel<SingleBlockOrderedKernel<Op, kThreads>>(
      {1, kThreads}, stream, parameters, Input<Op>(section), reinterpret_cast<State*>(workspace.nodes));
}

}  // namespace warpfold::kernels::cuda::textbook
