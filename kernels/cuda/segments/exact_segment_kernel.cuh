// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Exact sums of segments. Their states do not depend on the order, so that a warp adds elements as they come:
// through bins if their magnitudes are similar (operators/exact_bins.h), otherwise one by one, to its own
// superaccumulator in shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/exact/exact_digits.cuh"
#include "kernels/cuda/segments/element_reader.cuh"
#include "kernels/cuda/segments/segment_copy.cuh"
#include "kernels/cuda/segments/segment_kernel.cuh"
#include "kernels/cuda/segments/segment_runs.cuh"
#include "kernels/cuda/segments/segment_steps.cuh"
#include "kernels/operators/exact_bins.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <AccumulatingOperator Op>
class ExactSegmentWarp {
 public:
  using State = typename Op::State;
  struct Memory {
    StepBuffer buffers[2];
    ExactDigits<double> digits;
    State state;
  };

  __device__ ExactSegmentWarp(const Op& op, const SegmentPlan& plan, const SegmentWork& work, Memory& memory)
      : op_(op), plan_(plan), work_(work), steps_(plan), memory_(memory), lane_(threadIdx.x % kLanes) {}

  // The place in shared memory to which vector v of the copied bytes goes.
  static __device__ __forceinline__ std::uint32_t VectorPlace(std::uint32_t v) { return v; }

  __device__ __forceinline__ void Run() {
    memory_.digits.Clear(lane_);
    __syncwarp();
    ForEachStep<ExactSegmentWarp>(
        plan_, steps_, memory_.buffers,
        [this](const SegmentStep& step, const StepBuffer& buffer) { Fold(step, buffer); });
  }

 private:
  using Bins = ExactBins<3>;

  __device__ __forceinline__ void Fold(const SegmentStep& step, const StepBuffer& buffer) {
    const std::byte* const data = buffer.bytes + InVector(AddressOf(plan_, step.begin));
    const std::uint32_t segments = step.is_tile() ? step.item.count : 1;
#pragma unroll 1
    for (std::uint32_t i = 0; i < segments; ++i) {
      std::uint64_t begin = step.begin;
      std::uint64_t end = step.end;
      if (step.is_tile()) {
        begin = steps_.Offset(step.item.segment + i);
        end = steps_.Offset(step.item.segment + i + 1);
      }
      Add(data + ((begin - step.begin) << plan_.element_shift), static_cast<std::uint32_t>(end - begin));
      __syncwarp();
      if (!step.ends_item()) return;
      memory_.digits.Take(lane_, &memory_.state);
      const std::uint64_t length = step.is_tile() ? end - begin : step.length;
      if (!step.is_tile() && !FinishRun(op_, step, steps_.Runs(length), work_, memory_.state)) return;
      // An exact sum never has an error, whatever the elements are.
      if (lane_ == 0) FinishSegment(op_, memory_.state, length, step.item.segment + i, work_.out);
      __syncwarp();
    }
  }

  // Calls visit(addend) for this lane's elements.
  template <class Visit>
  __device__ __forceinline__ void ForEachAddend(const std::byte* data, std::uint32_t count,
                                                const Visit& visit) const {
#pragma unroll 1
    for (std::uint32_t i = lane_; i < count; i += kReadAtOnce * kLanes) {
      const std::uint32_t elements = min((count - i + kLanes - 1) / kLanes, kReadAtOnce);
      double x[kReadAtOnce];
      const std::byte* const first = data + (i << plan_.element_shift);
      const std::uint32_t stride = kLanes << plan_.element_shift;
      ReadElements(
          plan_.type, [=](std::uint32_t e) { return first + e * stride; }, elements, x);
#pragma unroll
      for (std::uint32_t e = 0; e < kReadAtOnce; ++e) {
        if (e < elements) visit(op_.Addend(x[e]));
      }
    }
  }

  // A lane has no more elements than bins can take.
  __device__ __forceinline__ void Add(const std::byte* data, std::uint32_t count) {
    static_assert(kLeafBytes / sizeof(std::uint16_t) / kLanes <= Bins::kMaxAddends);
    std::uint32_t largest = 0;
    ForEachAddend(data, count, [&](double x) { largest = max(largest, IsFinite(x) ? UpperHalf(x) : 0u); });
    Bins bins(TopFor(BitCast<double>(std::uint64_t{MaxOfWarp(largest)} << 32)));
    bool fits = true;
    std::uint32_t own_largest = 0;
    ForEachAddend(data, count, [&](double x) {
      fits = bins.Add(x) && fits;
      own_largest = max(own_largest, UpperHalf(x));
    });
    fits = fits && own_largest < static_cast<std::uint32_t>(bins.top() + 1023) << 20;
    if (!fits) ForEachAddend(data, count, [&](double x) { memory_.digits.Add(x); });
#pragma unroll
    for (int i = 0; i < Bins::kBins; ++i) {
      std::int64_t sum = fits ? bins.Count(i) : 0;
      for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += ShuffleXor(sum, distance);
      if (lane_ == 0 && sum != 0) memory_.digits.Add(sum, bins.LowestBit(i));
    }
  }

  const Op op_;
  const SegmentPlan plan_;
  const SegmentWork work_;
  const SegmentSteps steps_;
  Memory& memory_;
  const std::uint32_t lane_;
};

template <AccumulatingOperator Op>
__global__ void __launch_bounds__(kSegmentThreads, SegmentBlocks<Op>())
    ExactSegmentKernel(OperatorParameters parameters, SegmentPlan plan, SegmentWork work) {
  __shared__ typename ExactSegmentWarp<Op>::Memory memory[kSegmentWarps];
  ExactSegmentWarp<Op>(MakeOperator<Op>(parameters), plan, work, memory[threadIdx.x / kLanes]).Run();
}

}  // namespace warpfold::kernels::cuda
