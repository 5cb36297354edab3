// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the steps of a run become its state, and how the runs of a segment that is longer than a run become the
// segment's state: the warp that ends the last of them combines them.
#pragma once

#include <cstdint>

#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/cuda/segments/segment_steps.cuh"
#include "kernels/cuda/ticket.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// Whether this warp is the last of `warps` to get here, as IsLastOf tells for blocks. What lane 0 of each of
// them wrote before is then visible to all lanes. Lane 0 acquires it, and __syncwarp orders that before the
// reads of the other lanes, which a shuffle does not do (CUDA C++ Programming Guide, warp shuffle functions).
__device__ __forceinline__ bool IsLastWarp(unsigned* ticket, unsigned warps) {
  unsigned drawn = 0;
  if (threadIdx.x % kLanes == 0) drawn = DrawTicket(ticket, warps - 1);
  const bool is_last = __shfl_sync(kFullWarp, drawn, 0) == warps - 1;
  __syncwarp();
  return is_last;
}

// The tree over adjacent states, of which there may be any number; the outcome is in states[0]. All lanes of
// a warp call this. Each batch is read before its places are overwritten, and nothing is written beyond what
// has been read.
template <Operator Op>
__device__ __forceinline__ void CombineRuns(const Op& op, typename Op::State* states, std::uint32_t count) {
  using State = typename Op::State;
  const std::uint32_t lane = threadIdx.x % kLanes;
#pragma unroll 1
  for (; count > 1; count = (count + 1) / 2) {
#pragma unroll 1
    for (std::uint32_t base = 0; 2 * base < count; base += kLanes) {
      const std::uint32_t i = base + lane;
      State state;
      if (2 * i < count) state = states[2 * i];
      if (2 * i + 1 < count) state = op.Combine(state, states[2 * i + 1]);
      __syncwarp();
      if (2 * i < count) states[i] = state;
      __syncwarp();
    }
  }
}

// Adds the state of a run's step, states[0], to those of the run: after the last step, states[0] is the run's
// state. Full steps are counted in binary: states[1 + l] waits for its partner at level l. One lane calls
// this.
template <Operator Op>
__device__ __forceinline__ void TakeStep(const Op& op, const SegmentStep& step, typename Op::State* states) {
  auto* const waiting = states + 1;
  typename Op::State state = states[0];
  std::uint32_t level = 0;
  // At the end all lower levels are folded, too: the states that wait there have no right sibling except this
  // one.
  const std::uint32_t last = step.number + 1 == step.steps ? kMaxRunLevel : 0;
#pragma unroll 1
  for (; step.number >> level != 0 && ((step.number >> level) % 2 == 1 || level < last); ++level) {
    if ((step.number >> level) % 2 == 1) state = op.Combine(waiting[level], state);
  }
  if (last == 0) waiting[level] = state;
  states[0] = state;
}

// Leaves the state of a step's run where the segment's last run finds it. Returns true, in every lane, if
// this is the last run, or the only one; lane 0 then has the segment's state in `state`.
template <Operator Op>
__device__ __forceinline__ bool FinishRun(const Op& op, const SegmentStep& step, std::uint32_t runs,
                                          const SegmentWork& work, typename Op::State& state) {
  if (runs == 1) return true;
  auto* const partials = reinterpret_cast<typename Op::State*>(work.partials) + step.item.first_run;
  const bool leads = threadIdx.x % kLanes == 0;
  if (leads) partials[step.item.run] = state;
  if (!IsLastWarp(work.tickets + step.item.first_run, runs)) return false;
  CombineRuns(op, partials, runs);
  if (leads) state = partials[0];
  return true;
}

}  // namespace warpfold::kernels::cuda
