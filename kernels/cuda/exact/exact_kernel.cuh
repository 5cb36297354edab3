// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The multi-block reduction for operators with an accumulator: like reduce_kernel.cuh, but the warps of a
// block add their leaves to digits in shared memory instead of folding states.
#pragma once

#include <cstdint>

#include "kernels/cuda/exact/exact_leaves.cuh"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ticket.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/units.cuh"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {

inline constexpr int kExactWarps = kExactTuning.warps;
inline constexpr int kExactThreads = kExactWarps * kLanes;
inline constexpr int kExactBlocksPerMultiprocessor = kExactTuning.blocks;

template <AccumulatingOperator Op>
__global__ void __launch_bounds__(kExactThreads, kExactBlocksPerMultiprocessor)
    ExactKernel(OperatorParameters parameters, Range range, UnitPlan plan, Workspace workspace) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  ExactLeaves<Op> leaves(op, range);
  const std::uint32_t warp = threadIdx.x / kLanes;
  const std::uint32_t lane = threadIdx.x % kLanes;
  auto* const edges = reinterpret_cast<State*>(workspace.partials);
  auto* const units = edges + plan.edge_leaves();
  // Edges: one for each warp. Units: two in turn, so that one barrier per unit is enough.
  __shared__ ExactDigits<typename Op::Element> digits[kExactWarps];
  digits[warp].Clear(lane);
  __syncthreads();

  if (blockIdx.x < plan.unit_blocks) {
    const std::uint32_t run_leaves = (1u << plan.unit_level) / kExactWarps;
    const auto run = [&](std::uint64_t unit) {
      return ((plan.first_unit + unit) * kExactWarps + warp) * run_leaves;
    };
    std::uint32_t turn = 0;
    leaves.Prefetch(run(blockIdx.x));
    for (std::uint64_t unit = blockIdx.x; unit < plan.units; unit += plan.unit_blocks, turn ^= 1) {
      const std::uint64_t next = unit + plan.unit_blocks;
      leaves.AddRun(run(unit), run_leaves, run(next < plan.units ? next : unit), digits[turn]);
      __syncthreads();
      if (warp == 0) digits[turn].Take(lane, &units[unit]);
    }
  } else {
    const std::uint64_t edge = (blockIdx.x - plan.unit_blocks) * kExactWarps + warp;
    if (edge < plan.edge_leaves()) {
      leaves.AddEdge(plan.EdgeLeaf(range, edge), digits[warp]);
      __syncwarp();
      digits[warp].Take(lane, &edges[edge]);
    }
  }
  if (IsLastBlock(workspace.tickets)) {
    FoldPartials<FolderFor<Op>>(op, range, plan, workspace, edges);
  }
}

template <AccumulatingOperator Op>
cudaError_t LaunchExact(const OperatorParameters& parameters, const Range& range, const Workspace& workspace,
                        cudaStream_t stream) {
  using Leaves = ExactLeaves<Op>;
  constexpr std::uint32_t kSmallestLevel = Log2(kExactWarps);
  constexpr std::uint32_t kLargestLevel = kSmallestLevel + kExactTuning.largest_level;
  const std::uint64_t resident = workspace.multiprocessors * kExactBlocksPerMultiprocessor;
  const UnitPlan plan =
      PlanUnits(range, Leaves::kLeafElements, kSmallestLevel, kLargestLevel, resident, resident);
  const std::uint64_t blocks = plan.unit_blocks + (plan.edge_leaves() + kExactWarps - 1) / kExactWarps;
  return LaunchKernel<ExactKernel<Op>>({static_cast<unsigned>(blocks), kExactThreads}, stream, parameters,
                                       range, plan, workspace);
}

}  // namespace warpfold::kernels::cuda
