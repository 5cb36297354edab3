// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// sequential_addressing: the third rung of the ladder (Harris, "Optimizing Parallel Reduction in CUDA", 2007,
// kernel 3).
//
// One element per thread, as in the previous kernel. The stride s starts at half the block size and is halved
// in each step: thread t < s adds cell t + s to cell t.
//
// reduce2 of the toolkit's reduction sample (docs/textbook.md).
//
// Teaches: if adjacent lanes access adjacent cells, there are no bank conflicts at any stride. The cost is
// the order of combination: the first step combines elements half a block apart, so the operator must be
// commutative. Bound by: instructions. Half of the threads are idle from the first step on; they only load.
// Order: not kept.
//
// Harris's slides assume a multiple of the block's size, and the sample pads with 0; here missing items are
// the identity.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/relaunch.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    SequentialAddressingKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const unsigned t = threadIdx.x;
  cells[t] = input.AtOrIdentity(op, std::uint64_t{blockIdx.x} * kThreads + t);
  __syncthreads();
#pragma unroll 1
  for (unsigned s = kThreads / 2; s > 0; s /= 2) {
    if (t < s) cells[t] = op.Combine(cells[t], cells[t + s]);
    __syncthreads();
  }
  if (t == 0) partials[blockIdx.x] = cells[0];
}

template <Operator Op>
cudaError_t LaunchSequentialAddressing(const OperatorParameters& parameters, const Section& section,
                                       const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return RelaunchUntilOne<Op, SequentialAddressingKernel<Op, kThreads>>(kThreads, kThreads, parameters,
                                                                        section, workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
