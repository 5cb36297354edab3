// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// first_add_on_load: the fourth rung of the ladder (Harris, "Optimizing Parallel Reduction in CUDA", 2007,
// kernel 4).
//
// Half as many blocks: each thread loads two items, a block apart, and combines them on the way to shared
// memory. The tree is that of sequential_addressing.
//
// reduce3 of the toolkit's reduction sample (docs/textbook.md).
//
// Teaches: the first step of the tree, in which half the threads idled, is now done by all of them, and the
// two loads of a thread are in flight together. Bound by: instructions of the tree; half of the time on
// partials is gone as well. Order: not kept.
//
// Harris's slides read the second item without asking whether there is one; the sample asks, and pads with 0.
// Here missing items are the identity.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/relaunch.cuh"
#include "kernels/cuda/textbook/single_block.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    FirstAddOnLoadKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const std::uint64_t first = std::uint64_t{blockIdx.x} * (2 * kThreads) + threadIdx.x;
  const auto two = op.Combine(input.AtOrIdentity(op, first), input.AtOrIdentity(op, first + kThreads));
  const auto folded = HalvingTree<kThreads>(op, two, cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = folded;
}

template <Operator Op>
cudaError_t LaunchFirstAddOnLoad(const OperatorParameters& parameters, const Section& section,
                                 const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return RelaunchUntilOne<Op, FirstAddOnLoadKernel<Op, kThreads>>(kThreads, 2 * kThreads, parameters, section,
                                                                  workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
