// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// grid_stride: the seventh rung of the ladder (Harris, "Optimizing Parallel Reduction in CUDA", 2007, kernel
// 7), and his last.
//
// The grid has a fixed size; each thread folds many items, a grid apart, before the unrolled tree. One more
// launch of one block folds the partials.
//
// reduce6 of the toolkit's reduction sample (docs/textbook.md).
//
// Teaches: algorithm cascading (Brent's theorem). A tree step costs as much as a load, and one tree for
// hundreds of items per thread costs nothing. There are as many partials as blocks, 1,056 on an H100, however
// long the array is.
// Bound by: latency, for large arrays: that of two loads for each thread at a time.
// Order: not kept.
//
// The published forms have unsigned indices of 32 bits, which overflow near 2^32 items.
#pragma once

#include "kernels/cuda/textbook/relaunch.cuh"
#include "kernels/cuda/textbook/single_block.cuh"
#include "kernels/cuda/textbook/unrolled_warp.cuh"

namespace warpfold::kernels::cuda::textbook {

// This thread's share of the items: pairs that are a block's threads apart, in strides of the whole grid. Two
// loads are in flight at a time, and only for the last pair it is checked whether it is complete.
template <int kThreads, Operator Op>
__device__ __forceinline__ typename Op::State FoldPairsStrided(const Op& op, const Input<Op>& input) {
  const std::uint64_t count = input.count();
  const std::uint64_t stride = std::uint64_t{gridDim.x} * (2 * kThreads);
  return input.With([&](const auto& items) {
    typename Op::State state = op.Identity();
    std::uint64_t i = std::uint64_t{blockIdx.x} * (2 * kThreads) + threadIdx.x;
    for (; i + kThreads < count; i += stride) {
      const auto left = items.At(op, i);
      const auto right = items.At(op, i + kThreads);
      state = op.Combine(state, op.Combine(left, right));
    }
    return i < count ? op.Combine(state, items.At(op, i)) : state;
  });
}

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    GridStrideKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const auto folded = UnrolledTree<kThreads>(op, FoldPairsStrided<kThreads>(op, input), cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = folded;
}

template <Operator Op>
cudaError_t LaunchGridStride(const OperatorParameters& parameters, const Section& section,
                             const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return LaunchTwice<Op, GridStrideKernel<Op, kThreads>>(kThreads, 2 * kThreads, parameters, section,
                                                         workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
