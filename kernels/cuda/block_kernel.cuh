// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest ranges: one block, a leaf a warp. Their states meet in shared memory; that of a leaf alone is
// the result. Beside its loads such a launch takes the time to fetch its instructions: this kernel has few.
#pragma once

#include <cstdint>

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/launch.h"

namespace warpfold::kernels::cuda {

template <class Leaves>
__global__ void __launch_bounds__(Leaves::kThreads)
    BlockKernel(OperatorParameters parameters, Range range, Workspace workspace) {
  using Op = typename Leaves::Operation;
  using State = typename Op::State;
  constexpr std::uint32_t kWarps = Leaves::kWarps;
  const Op op = MakeOperator<Op>(parameters);
  Leaves leaves(op, range);
  const std::uint32_t leaf = threadIdx.x / kLanes;
  State state = leaves.FoldEdge(range.first_leaf + leaf);
  if (range.leaf_count == 1) {
    if (threadIdx.x == 0) *reinterpret_cast<State*>(workspace.nodes) = state;
    return;
  }
  __shared__ alignas(16) std::byte shared[kWarps * sizeof(State)];
  auto* const states = reinterpret_cast<State*>(shared);
  if (threadIdx.x % kLanes == 0) states[leaf] = state;
  __syncthreads();
  FoldLeaves<kWarps>(op, range, workspace, states);
}

// Of no more leaves than a block has warps.
template <class Leaves>
cudaError_t LaunchBlock(const OperatorParameters& parameters, const Range& range, const Workspace& workspace,
                        cudaStream_t stream) {
  const auto threads = static_cast<unsigned>(range.leaf_count * kLanes);
  BlockKernel<Leaves><<<1, threads, 0, stream>>>(parameters, range, workspace);
  return cudaGetLastError();
}

}  // namespace warpfold::kernels::cuda
