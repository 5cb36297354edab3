// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The multi-block reduction, in one launch: each block folds some units or edge leaves, and the last block to
// finish folds their partials (fold.cuh). docs/kernels.md follows a float32 sum through it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ticket.cuh"
#include "kernels/cuda/units.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// A block's first two units are assigned statically. While it folds a unit, it takes the number of the unit
// after the next from an atomic counter: unit 2 * unit_blocks + drawn. There are as many draws as units, so
// that the counter wraps to zero at the end of the launch.
__device__ __forceinline__ unsigned DrawUnit(const UnitPlan& plan, const Workspace& workspace) {
  return atomicInc(workspace.tickets + 1, plan.units - 1);
}

// Combines the states of the warps' runs into the state of the unit. The result is valid in lane 0 of the
// calling warp.
template <std::uint32_t kWarps, class Op>
__device__ __forceinline__ typename Op::State FoldWarps(const Op& op, const typename Op::State* states,
                                                        std::uint32_t lane) {
  typename Op::State folded = states[lane % kWarps];
  for (std::uint32_t width = 1; width < kWarps; width *= 2) {
    const typename Op::State right = ShuffleDown(folded, width);
    if (lane % (2 * width) == 0) folded = CombineEqualStates(op, folded, right);
  }
  return folded;
}

// The host passes these to the kernel: the operator's parameters, or with a modulus the operator itself, so
// that its reciprocals are computed once on the host and not by each thread.
template <class Op, bool kHasModulus>
using KernelParameters = std::conditional_t<kHasModulus, Op, OperatorParameters>;

template <class Op, bool kHasModulus>
__device__ __forceinline__ Op OperatorOf(const KernelParameters<Op, kHasModulus>& parameters) {
  if constexpr (kHasModulus) {
    Assume(parameters.residues.any());
    return parameters;
  } else if constexpr (TakesModulus<Op>) {
    return Op();
  } else {
    return MakeOperator<Op>(parameters);
  }
}

// Leaves is the class with which a warp reduces leaves: WarpLeaves, OrderedLeaves or EndLeaves. It has:
//
//   Operation, kLeafElements, kWarps and kThreads of a block, kBlocksPerMultiprocessor
//   kLargestLevel                   of runs: 2^level aligned leaves, the warp's share of a unit
//   Prefetch(leaf)                  begins to load the leaf with which the next run starts
//   PrefetchEdge(leaf)              the same for a leaf that is folded alone, and is not short (IsShort)
//   FoldRun(first, level, next)     the run's state, in lane 0 at least; ends by prefetching leaf `next`,
//                                   unless that is kNoLeaf
//   kHasShort                       whether leaves with too few elements are not for FoldRun; if so:
//   IsShort(leaf), FoldShort(leaf)  whether a leaf is one of those, and its state then
//
// If an operator may have a modulus, there are two kernels: the compiler knows that an operator made without
// the parameters has none, and does not test for it at each step.
//
// After its last unit a block has nothing to prefetch: it loads the first leaves of that unit again, and
// nobody uses them. If units are not drawn, `next` becomes a number that no unit has, so that a block ends
// after its second one.
template <class Leaves, bool kHasModulus>
__global__ void __launch_bounds__(Leaves::kThreads, Leaves::kBlocksPerMultiprocessor)
    ReduceKernel(KernelParameters<typename Leaves::Operation, kHasModulus> parameters, Range range,
                 UnitPlan plan, Workspace workspace) {
  using Op = typename Leaves::Operation;
  using State = typename Op::State;
  const Op op = OperatorOf<Op, kHasModulus>(parameters);
  constexpr std::uint32_t kWarps = Leaves::kWarps;
  Leaves leaves(op, range);
  const std::uint32_t warp = threadIdx.x / kLanes;
  const std::uint32_t lane = threadIdx.x % kLanes;
  // There are two sets, used in turn, so that one barrier per unit is enough.
  WARPFOLD_SHARED(std::byte, shared, [2][kWarps * sizeof(State)]);
  WARPFOLD_SHARED(unsigned, drawn, [2]);
  // The partials of a single block can stay in shared memory.
  const bool is_alone = gridDim.x == 1 && plan.units == 0;
  auto* const edges = reinterpret_cast<State*>(is_alone ? shared[0] : workspace.partials);
  auto* const units = reinterpret_cast<State*>(workspace.partials) + plan.edge_leaves();

  const auto edge_blocks = static_cast<std::uint32_t>((plan.edge_leaves() + kWarps - 1) / kWarps);
  const bool is_edge = blockIdx.x < edge_blocks;
  const std::uint32_t block = blockIdx.x - edge_blocks;
  const std::uint32_t level = is_edge ? 0 : plan.unit_level - Log2(kWarps);
  const auto run = [&](std::uint32_t unit) { return ((plan.first_unit + unit) * kWarps + warp) << level; };
  // Edge leaves go through the loop of the units: the code that folds leaves is most of a kernel.
  const auto edge = [&] { return std::uint64_t{blockIdx.x} * kWarps + warp; };
  bool folds = true;
  if (is_edge) {
    const std::uint64_t leaf = plan.EdgeLeaf(range, edge());
    folds = edge() < plan.edge_leaves();
    if constexpr (Leaves::kHasShort) {
      if (folds && leaves.IsShort(leaf)) {
        const State state = leaves.FoldShort(leaf);
        if (lane == 0) edges[edge()] = state;
        folds = false;
      }
    }
    if (folds) leaves.PrefetchEdge(leaf);
  } else {
    leaves.Prefetch(run(block));
  }
  std::uint32_t turn = 0;
  std::uint32_t unit = block;
  std::uint32_t next = block + plan.unit_blocks;
  while (folds) {
    // A warp that has nothing to combine draws: waiting for the number takes about as long as combining.
    if (threadIdx.x == kLanes) drawn[turn] = plan.draws && !is_edge ? DrawUnit(plan, workspace) : 0;
    const State state = leaves.FoldRun(is_edge ? plan.EdgeLeaf(range, edge()) : run(unit), level,
                                       is_edge ? kNoLeaf : run(next < plan.units ? next : unit));
    if (is_edge) {
      if (lane == 0) edges[edge()] = state;
      break;
    }
    auto* const states = reinterpret_cast<State*>(shared[turn]);
    if (lane == 0) states[warp] = state;
    __syncthreads();
    if (warp == 0) {
      const State folded = FoldWarps<kWarps>(op, states, lane);
      if (lane == 0) units[unit] = folded;
    }
    unit = next;
    next = 2 * plan.unit_blocks + drawn[turn];
    turn ^= 1;
    folds = unit < plan.units;
  }
  if (IsLastBlock(workspace.tickets)) {
    FoldPartials<FolderFor<Op, kHasModulus>>(op, range, plan, workspace, edges);
  }
}

template <class Leaves>
cudaError_t LaunchReduce(const OperatorParameters& parameters, const Range& range, const Workspace& workspace,
                         cudaStream_t stream) {
  static_assert(Leaves::kWarps > 1);  // the second warp draws units
  UnitPlan plan;
  auto threads = static_cast<unsigned>(Leaves::kThreads);
  if (range.leaf_count <= Leaves::kWarps) {
    // There is one block, in which each warp folds one leaf alone: all of them are edges.
    plan.left_edge = range.leaf_count;
    threads = static_cast<unsigned>(range.leaf_count * kLanes);
  } else {
    constexpr std::uint32_t kBlockLevel = Log2(Leaves::kWarps);
    plan = PlanUnits(range, Leaves::kLeafElements, kBlockLevel, kBlockLevel + Leaves::kLargestLevel,
                     workspace.multiprocessors * Leaves::kBlocksPerMultiprocessor);
  }
  const std::uint64_t blocks = plan.unit_blocks + (plan.edge_leaves() + Leaves::kWarps - 1) / Leaves::kWarps;
  const LaunchShape shape = {static_cast<unsigned>(blocks), threads};
  using Op = typename Leaves::Operation;
  if constexpr (TakesModulus<Op>) {
    const Op op(parameters);
    if (op.residues.any()) {
      return LaunchKernel<ReduceKernel<Leaves, true>>(shape, stream, op, range, plan, workspace);
    }
  }
  return LaunchKernel<ReduceKernel<Leaves, false>>(shape, stream, parameters, range, plan, workspace);
}

}  // namespace warpfold::kernels::cuda
