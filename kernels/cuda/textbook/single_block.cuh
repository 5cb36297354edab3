// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// single_block: one block reduces everything.
//
// Thread t folds items t, t + B, t + 2B, ... of the section into a register, where B is the size of the
// block; then a tree in shared memory halves the active threads: thread t takes the cell of thread t + size,
// for size = B/2, ..., 1.
//
// Published as sumCommSingleBlock (docs/textbook.md).
//
// Teaches: the two phases of every reduction on a GPU, each thread alone and then all together, and why
// adjacent threads read adjacent items (one memory transaction serves a warp).
// Bound by: one multiprocessor's loads in flight, a few per cent of the device's bandwidth.
// Order: not kept. The threads' strided items interleave, and so do the tree's halves.
//
// The usual published form pads with 0, which is wrong for a product or a minimum, counts with int, and skips
// the barrier after the last step. Here the padding is the operator's identity: a thread without items starts
// with it and keeps it.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/input.cuh"

namespace warpfold::kernels::cuda::textbook {

// Returns the states of all threads of the block, folded; in thread 0. `cells` has room for kThreads states.
// Others may write to them only after the block's next barrier: until then thread 0 may still read.
template <int kThreads, Operator Op>
__device__ typename Op::State HalvingTree(const Op& op, const typename Op::State& state,
                                          typename Op::State* cells) {
  const int t = threadIdx.x;
  cells[t] = state;
  __syncthreads();
#pragma unroll 1
  for (int size = kThreads / 2; size > 0; size /= 2) {
    if (t < size) cells[t] = op.Combine(cells[t], cells[t + size]);
    __syncthreads();
  }
  return cells[0];
}

// Items first, first + stride, first + 2 * stride, ..., folded by this thread.
//
// Indices are signed, like those of the published forms. The overflow of a signed index is undefined, so the
// compiler may count the rounds of the loop before the first one, and unrolls it: a thread then requests
// sixteen items before it folds the first of them. With unsigned indices it has only one load in flight.
template <Operator Op>
__device__ __forceinline__ typename Op::State FoldStrided(const Op& op, const Input<Op>& input,
                                                          std::int64_t first, std::int64_t stride) {
  const auto count = static_cast<std::int64_t>(input.count());
  return input.With([&](const auto& items) {
    typename Op::State state = op.Identity();
    for (std::int64_t i = first; i < count; i += stride) state = op.Combine(state, items.At(op, i));
    return state;
  });
}

// This thread's share of the items, in strides of the whole grid.
template <int kThreads, Operator Op>
__device__ __forceinline__ typename Op::State FoldStridedByGrid(const Op& op, const Input<Op>& input) {
  return FoldStrided(op, input, std::int64_t{blockIdx.x} * kThreads + threadIdx.x,
                     std::int64_t{gridDim.x} * kThreads);
}

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    SingleBlockKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* result) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const auto folded = HalvingTree<kThreads>(op, FoldStrided(op, input, threadIdx.x, kThreads), cells);
  if (threadIdx.x == 0) *result = folded;
}

template <Operator Op>
cudaError_t LaunchSingleBlock(const OperatorParameters& parameters, const Section& section,
                              const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  constexpr int kThreads = ThreadsFor<State>(1024);
  return LaunchKernel<SingleBlockKernel<Op, kThreads>>({1, kThreads}, stream, parameters, Input<Op>(section),
                                                       reinterpret_cast<State*>(workspace.nodes));
}

}  // namespace warpfold::kernels::cuda::textbook
