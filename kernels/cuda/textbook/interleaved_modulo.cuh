// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// interleaved_modulo: the first rung of the ladder (Harris, "Optimizing Parallel Reduction in CUDA", 2007,
// kernel 1), and the slowest.
//
// Each thread loads one item into shared memory; then, for strides s = 1, 2, 4, ..., the threads whose number
// is a multiple of 2s add the cell s to their right. A block leaves one partial; the kernel runs again on the
// partials until one is left.
//
// reduce0 of the toolkit's reduction sample (docs/textbook.md).
//
// Teaches: what divergence costs. In every step the active threads are spread over all warps, so all warps
// run for a half, a quarter, an eighth of their lanes; and `%` by a number that is not known to be a power of
// two takes some twenty instructions. Bound by: instructions. Order: kept. Adjacent runs are joined.
//
// Harris's slides assume a multiple of the block's size and read beyond the end of other arrays; the sample
// pads with 0. Here missing items are the identity.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/relaunch.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    InterleavedModuloKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const unsigned t = threadIdx.x;
  cells[t] = input.AtOrIdentity(op, std::uint64_t{blockIdx.x} * kThreads + t);
  __syncthreads();
#pragma unroll 1  // if unrolled, the modulo would become a mask and the lesson be lost
  for (unsigned s = 1; s < kThreads; s *= 2) {
    if (t % (2 * s) == 0) cells[t] = op.Combine(cells[t], cells[t + s]);
    __syncthreads();
  }
  if (t == 0) partials[blockIdx.x] = cells[0];
}

template <Operator Op>
cudaError_t LaunchInterleavedModulo(const OperatorParameters& parameters, const Section& section,
                                    const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return RelaunchUntilOne<Op, InterleavedModuloKernel<Op, kThreads>>(kThreads, kThreads, parameters, section,
                                                                     workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
