// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// interleaved_strided: the second rung of the ladder (Harris, "Optimizing Parallel Reduction in CUDA", 2007,
// kernel 2).
//
// The tree of interleaved_modulo, with the work given to contiguous threads: thread t folds the cells 2st and
// 2st + s, so that whole warps are active or done.
//
// reduce1 of the toolkit's reduction sample (docs/textbook.md).
//
// Teaches: divergence is gone, and bank conflicts have taken its place. In the step s the lanes of a warp
// touch cells 2s apart; shared memory has 32 banks of 4 bytes, so from s = 16 on (for states of 4 bytes) all
// lanes want the same bank and are served one after the other.
// Bound by: shared memory.
// Order: kept. Adjacent runs are joined.
//
// Both published forms compute 2 * s * t, as an int, before they know whether the cell exists. Harris's
// slides assume a multiple of the block's size, and the sample pads with 0; here missing items are the
// identity.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/relaunch.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    InterleavedStridedKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const unsigned t = threadIdx.x;
  cells[t] = input.AtOrIdentity(op, std::uint64_t{blockIdx.x} * kThreads + t);
  __syncthreads();
#pragma unroll 1
  for (unsigned s = 1; s < kThreads; s *= 2) {
    const unsigned left = 2 * s * t;
    if (left < kThreads) cells[left] = op.Combine(cells[left], cells[left + s]);
    __syncthreads();
  }
  if (t == 0) partials[blockIdx.x] = cells[0];
}

template <Operator Op>
cudaError_t LaunchInterleavedStrided(const OperatorParameters& parameters, const Section& section,
                                     const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return RelaunchUntilOne<Op, InterleavedStridedKernel<Op, kThreads>>(kThreads, kThreads, parameters, section,
                                                                      workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
