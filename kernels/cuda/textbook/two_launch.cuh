// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// two_launch: a grid writes one partial per block, and a second launch of one block folds the partials.
//
// Each thread strides through the section by the size of the whole grid; each block folds its threads' states
// with the tree of single_block. The second launch is the same kernel on the partials.
//
// Published as sumCommMultiBlock, launched twice (docs/textbook.md).
//
// Teaches: the end of a launch is a barrier over all blocks, and the only one that needs no thought: the
// second launch sees all that the first wrote.
// Bound by: memory, with sixteen loads of each thread in flight; for small arrays, the second launch.
// Order: not kept.
//
// The published form sizes the partials with one constant and the second launch with another, and reads
// partials that no block wrote if the two differ. Here one number, the grid of the first launch, serves as
// both.
#pragma once

#include "kernels/cuda/textbook/relaunch.cuh"
#include "kernels/cuda/textbook/single_block.cuh"

namespace warpfold::kernels::cuda::textbook {

template <Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    TwoLaunchKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  const Op op = MakeOperator<Op>(parameters);
  auto* const cells = SharedCells<typename Op::State, kThreads>();
  const auto folded = HalvingTree<kThreads>(op, FoldStridedByGrid<kThreads>(op, input), cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = folded;
}

template <Operator Op>
cudaError_t LaunchTwoLaunch(const OperatorParameters& parameters, const Section& section,
                            const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(1024);
  return LaunchTwice<Op, TwoLaunchKernel<Op, kThreads>>(kThreads, kThreads, parameters, section, workspace,
                                                        stream);
}

}  // namespace warpfold::kernels::cuda::textbook
