// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The multi-block reduction: each block one unit or some edge leaves, the last block the partials. One
// launch.
#pragma once

#include <cstdint>

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/geometry.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {

constexpr std::uint32_t Log2(std::uint32_t x) { return x == 1 ? 0 : 1 + Log2(x / 2); }

// Leaves: ScalarLeaves or OrderedLeaves.
template <class Leaves>
__global__ void __launch_bounds__(Leaves::kWarps* kLanes)
    ReduceKernel(OperatorParameters parameters, Range range, Geometry geometry, Workspace workspace) {
  using Op = typename Leaves::Operation;
  using State = typename Op::State;
  constexpr std::uint32_t kWarps = Leaves::kWarps;
  const Op op = MakeOperator<Op>(parameters);
  const Leaves leaves(op, range);
  const std::uint32_t warp = threadIdx.x / kLanes;
  const std::uint32_t lane = threadIdx.x % kLanes;
  auto* const edges = reinterpret_cast<State*>(workspace.partials);
  auto* const units = edges + geometry.edge_leaves();

  if (blockIdx.x < geometry.units) {
    const std::uint32_t level = geometry.unit_level - Log2(kWarps);
    const std::uint64_t unit = geometry.first_unit + blockIdx.x;
    const State state = leaves.FoldRun(((unit * kWarps) + warp) << level, level);
    __shared__ alignas(16) std::byte shared[kWarps * sizeof(State)];
    auto* const states = reinterpret_cast<State*>(shared);
    if (lane == 0) states[warp] = state;
    for (std::uint32_t width = 1; width < kWarps; width *= 2) {
      __syncthreads();
      if (lane == 0 && warp % (2 * width) == 0) states[warp] = op.Combine(states[warp], states[warp + width]);
    }
    if (threadIdx.x == 0) units[blockIdx.x] = states[0];
  } else {
    const std::uint64_t edge = (blockIdx.x - geometry.units) * kWarps + warp;
    if (edge < geometry.edge_leaves()) {
      const State state = leaves.FoldEdge(geometry.EdgeLeaf(range, edge));
      if (lane == 0) edges[edge] = state;
    }
  }
  if (IsLastBlock(workspace.ticket)) FoldPartials(op, range, geometry, workspace, 1);
}

template <class Leaves>
cudaError_t LaunchReduce(const OperatorParameters& parameters, const Range& range, const Workspace& workspace,
                         cudaStream_t stream) {
  // Enough units for four waves of blocks on 132 multiprocessors.
  constexpr std::uint64_t kWantedUnits = 2048;
  constexpr std::uint32_t kBlockLevel = Log2(Leaves::kWarps);
  const Geometry geometry =
      PlanUnits(range, Leaves::kLeafElements, kBlockLevel, kBlockLevel + Leaves::kLargestLevel, kWantedUnits);
  const std::uint64_t partials = geometry.units + 1 + geometry.edge_leaves();  // see FoldPartials
  if (partials * sizeof(typename Leaves::State) > workspace.partial_bytes) return cudaErrorInvalidValue;
  const std::uint64_t blocks =
      geometry.units + (geometry.edge_leaves() + Leaves::kWarps - 1) / Leaves::kWarps;
  ReduceKernel<Leaves><<<static_cast<unsigned>(blocks), Leaves::kWarps * kLanes, 0, stream>>>(
      parameters, range, geometry, workspace);
  return cudaGetLastError();
}

}  // namespace warpfold::kernels::cuda
