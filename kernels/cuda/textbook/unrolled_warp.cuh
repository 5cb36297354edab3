// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// unrolled_warp: the fifth and sixth rungs of the ladder (Harris, "Optimizing Parallel Reduction in CUDA",
// 2007, kernels 5 and 6).
//
// Like first_add_on_load, but the size of the block is a template parameter, so that the tree unrolls to
// straight-line code, and the last 32 states are folded with shuffles, without a barrier.
//
// reduce4 and reduce5 of the toolkit's reduction sample (docs/textbook.md).
//
// Teaches: the compiler removes what it knows. The last warp needs no block barrier, because no other warp is
// left, and no shared memory either.
// Bound by: memory, nearly; what remains is one launch after another for the partials.
// Order: not kept.
//
// In Harris's slides the last warp works in shared memory without any synchronisation, and relies on its
// lanes running in step. They have not done so since Volta. The sample shuffles in a tile of 32 lanes, and so
// does this kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/relaunch.cuh"
#include "kernels/cuda/warp.cuh"

namespace warpfold::kernels::cuda::textbook {

// Returns the states of all threads of the block, folded; in thread 0. `cells` has room for kThreads states.
template <int kThreads, Operator Op>
__device__ typename Op::State UnrolledTree(const Op& op, typename Op::State state,
                                           typename Op::State* cells) {
  const int t = threadIdx.x;
  cells[t] = state;
  __syncthreads();
#pragma unroll
  for (int s = kThreads / 2; s > kLanes; s /= 2) {
    if (t < s) cells[t] = op.Combine(cells[t], cells[t + s]);
    __syncthreads();
  }
  if (t < kLanes) {
    state = cells[t];
    if constexpr (kThreads > kLanes) state = op.Combine(state, cells[t + kLanes]);
#pragma unroll
    for (int s = kLanes / 2; s > 0; s /= 2) state = op.Combine(state, ShuffleDown(state, s));
  }
  return state;
}

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    UnrolledWarpKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const std::uint64_t first = std::uint64_t{blockIdx.x} * (2 * kThreads) + threadIdx.x;
  const auto two = op.Combine(input.AtOrIdentity(op, first), input.AtOrIdentity(op, first + kThreads));
  const auto folded = UnrolledTree<kThreads>(op, two, cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = folded;
}

template <Operator Op>
cudaError_t LaunchUnrolledWarp(const OperatorParameters& parameters, const Section& section,
                               const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return RelaunchUntilOne<Op, UnrolledWarpKernel<Op, kThreads>>(kThreads, 2 * kThreads, parameters, section,
                                                                workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
