// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel over segments: each warp takes one item after the other, independently. A tile's segments are
// folded several at once, and each is finished by one lane. A run leaves its state in global memory; the warp
// that draws the last ticket of a segment folds those of all its runs.
//
// Whole vectors of the common types are folded in registers (segment_registers.cuh). All others go through
// shared memory: while a warp folds the elements of one step, those of the next are on their way to its other
// buffer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/segments/segment_copy.cuh"
#include "kernels/cuda/segments/segment_leaf.cuh"
#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/cuda/segments/segment_registers.cuh"
#include "kernels/cuda/segments/segment_runs.cuh"
#include "kernels/cuda/segments/segment_steps.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <Operator Op>
constexpr int SegmentBlocks() {
  return SegmentBlocks(FoldsInRegisters<Op>, sizeof(typename Op::State), sizeof(typename Op::LeafState));
}
inline constexpr std::uint32_t kSegmentThreads = kSegmentWarps * kLanes;

template <Operator Op>
struct SegmentWarpMemory {
  using State = typename Op::State;
  StepBuffer buffers[2];
  // A tile's states, by segment; for a run, what TakeStep keeps.
  alignas(16) std::byte states[kTileSegments * sizeof(State)];
};

template <Operator Op>
class SegmentWarp {
 public:
  using State = typename Op::State;

  __device__ SegmentWarp(const Op& op, const SegmentPlan& plan, const SegmentWork& work,
                         SegmentWarpMemory<Op>& memory)
      : op_(op),
        plan_(plan),
        work_(work),
        steps_(plan),
        leaf_(op, plan),
        memory_(memory),
        states_(reinterpret_cast<State*>(memory.states)),
        lane_(threadIdx.x % kLanes) {}

  __device__ __forceinline__ void Run() {
    ForEachStep<SegmentLeaf<Op>>(
        plan_, steps_, memory_.buffers,
        [this](const SegmentStep& step, const StepBuffer& buffer) { Fold(step, buffer); });
  }

 private:
  // Folds a step's elements, and finishes the segments that are complete.
  __device__ __forceinline__ void Fold(const SegmentStep& step, const StepBuffer& buffer) {
    // Where segment number `lane` of a tile begins within the tile, and how many elements it has.
    std::uint32_t begin = 0;
    std::uint32_t count = static_cast<std::uint32_t>(step.end - step.begin);
    const std::uint32_t segments = step.is_tile() ? step.item.count : 1;
    if (step.is_tile()) {
      const std::uint64_t segment = step.item.segment + min(lane_, step.item.count - 1);
      begin = static_cast<std::uint32_t>(steps_.Offset(segment) - step.begin);
      count = static_cast<std::uint32_t>(steps_.Offset(segment + 1) - step.begin) - begin;
    }
    FoldSegments(step, buffer, begin, count, segments);
    __syncwarp();
    bool is_complete = step.is_tile() && lane_ < step.item.count;
    if (!step.is_tile()) is_complete = FinishLeaf(step) && lane_ == 0;
    if (!is_complete) return;
    const std::uint64_t length = step.is_tile() ? count : step.length;
    if (!FinishSegment(op_, states_[lane_], length, step.item.segment + lane_, work_.out)) {
      *work_.has_errors = 1;
    }
  }

  // Leaves the states of all segments of the step in states_.
  __device__ __forceinline__ void FoldSegments(const SegmentStep& step, const StepBuffer& buffer,
                                               std::uint32_t begin, std::uint32_t count,
                                               std::uint32_t segments) {
    const std::uint32_t in_vector = InVector(AddressOf(plan_, step.begin));
    const LaneGroup group = leaf_.GroupFor(MaxOfWarp(count));
#pragma unroll 1
    for (std::uint32_t base = 0; base < segments; base += kLanes / group.size) {
      const std::uint32_t i = base + lane_ / group.size;
      const auto source = static_cast<int>(min(i, kLanes - 1));
      LeafElementsAt elements;
      elements.memory = buffer.bytes;
      elements.offset = in_vector + (__shfl_sync(kFullWarp, begin, source) << plan_.element_shift);
      elements.count = __shfl_sync(kFullWarp, count, source);
      if (i >= segments) elements.count = 0;
      const auto state = leaf_.Fold(elements, group);
      if (group.lane == 0 && i < segments) states_[i] = op_.Widen(state, step.first);
    }
  }

  // Adds the leaf's state to those of its run; true if that completes the segment, whose state is then in
  // states_[0].
  __device__ __forceinline__ bool FinishLeaf(const SegmentStep& step) {
    if (lane_ == 0) TakeStep(op_, step, states_);
    if (!step.ends_item()) return false;
    return FinishRun(op_, step, steps_.Runs(step.length), work_, states_[0]);
  }

  const Op op_;
  const SegmentPlan plan_;
  const SegmentWork work_;
  const SegmentSteps steps_;
  const SegmentLeaf<Op> leaf_;
  SegmentWarpMemory<Op>& memory_;
  State* const states_;
  const std::uint32_t lane_;
};

// InRegisters: the operator over elements of 32 and of 64 bits, if it folds whole vectors in registers.
template <Operator Op, Operator... InRegisters>
__global__ void __launch_bounds__(kSegmentThreads, SegmentBlocks<Op>())
    SegmentKernel(OperatorParameters parameters, SegmentPlan plan, SegmentWork work) {
  __shared__ SegmentWarpMemory<Op> memory[kSegmentWarps];
  SegmentWarpMemory<Op>& own = memory[threadIdx.x / kLanes];
  if (sizeof...(InRegisters) > 0 && plan.in_registers) {
    (RunInRegisters<InRegisters>(parameters, plan, work, own.states, own.buffers), ...);
    return;
  }
  SegmentWarp<Op>(MakeOperator<Op>(parameters), plan, work, own).Run();
}

// kKernel is the kernel of Op over segments: SegmentKernel or ExactSegmentKernel.
template <Operator Op, auto kKernel>
cudaError_t LaunchSegments(const OperatorParameters& parameters, const SegmentPlan& plan,
                           const SegmentWork& work, cudaStream_t stream) {
  const std::uint64_t needed = (plan.item_count + kSegmentWarps - 1) / kSegmentWarps;
  const std::uint64_t resident = std::uint64_t{work.multiprocessors} * SegmentBlocks<Op>();
  const auto blocks = static_cast<unsigned>(std::min(needed, resident));
  return LaunchKernel<kKernel>({blocks, kSegmentThreads}, stream, parameters, plan, work);
}

}  // namespace warpfold::kernels::cuda
