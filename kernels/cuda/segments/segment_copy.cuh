// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The loop over a warp's steps whose elements go through shared memory (ForEachStep), and the copies that it
// begins. A step's bytes may begin at any element; the 16-byte vectors that contain them are copied. So up to
// 15 bytes before and after them are read, too. If a step has no bytes, that may be the vector that contains
// its position.
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/segments/segment_steps.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {

// A leaf's vectors, one more if it begins inside a vector, rounded up to whole groups of eight.
inline constexpr std::uint32_t kStepVectors = static_cast<std::uint32_t>(kLeafBytes) / kVectorBytes + 8;

struct alignas(kVectorBytes) StepBuffer {
  std::byte bytes[kStepVectors * kVectorBytes];
};

__device__ __forceinline__ const std::byte* AddressOf(const SegmentPlan& plan, std::uint64_t element) {
  return plan.data + (element << plan.element_shift);
}

// How far after the start of its vector a byte is.
__device__ __forceinline__ std::uint32_t InVector(const std::byte* at) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at)) % kVectorBytes;
}

// Begins to copy `bytes` bytes, at most a leaf's; each vector to its place according to Leaf. All lanes of a
// warp call this.
template <class Leaf>
__device__ __forceinline__ void BeginCopy(const std::byte* from, std::uint32_t bytes, StepBuffer& to) {
  const std::uint32_t skipped = InVector(from);
  const std::byte* const first = from - skipped;
  const std::uint32_t vectors = (skipped + bytes + kVectorBytes - 1) / kVectorBytes;
#pragma unroll kSegmentCopiesInFlight
  for (std::uint32_t v = threadIdx.x % kLanes; v < vectors; v += kLanes) {
    CopyAsync<kVectorBytes>(to.bytes + Leaf::VectorPlace(v) * kVectorBytes, first + v * kVectorBytes);
  }
}

// Calls fold(step, buffer) for each step of a warp's items, with the step's bytes in the buffer, while those
// of the next step are on their way to the other one.
template <class Leaf, class Fold>
__device__ __forceinline__ void ForEachStep(const SegmentPlan& plan, const SegmentSteps& steps,
                                            StepBuffer (&buffers)[2], const Fold& fold) {
  const auto copy = [&plan](const SegmentStep& step, StepBuffer& to) {
    const auto bytes = static_cast<std::uint32_t>(step.end - step.begin) << plan.element_shift;
    BeginCopy<Leaf>(AddressOf(plan, step.begin), bytes, to);
  };
  SegmentCursor cursor = steps.Begin();
  bool has_next = steps.Exists(cursor);
  SegmentStep next;
  if (has_next) next = steps.At(cursor);
  std::uint32_t turn = 0;
  if (has_next) copy(next, buffers[turn]);
  CommitCopies();
#pragma unroll 1
  while (has_next) {
    const SegmentStep step = next;
    steps.Advance(step, cursor);
    has_next = steps.Exists(cursor);
    if (has_next) {
      next = step.ends_item() ? steps.At(cursor) : steps.Following(step);
      copy(next, buffers[turn ^ 1]);
    }
    CommitCopies();
    WaitForAllButLastCopies();
    __syncwarp();
    fold(step, buffers[turn]);
    __syncwarp();  // everything has been read, and may be overwritten
    turn ^= 1;
  }
}

}  // namespace warpfold::kernels::cuda
