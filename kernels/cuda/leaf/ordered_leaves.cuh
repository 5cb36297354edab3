// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp reduces leaves of an operator that keeps array order: over scalars, and over matrices of which a
// lane holds several (matrix_kernel.cuh is for larger ones).
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/pair_up.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/units.cuh"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <Operator Op>
class OrderedLeaves {
 public:
  using Operation = Op;
  using Element = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  static constexpr std::uint32_t kLeafElements = LeafElements(sizeof(Element));
  static constexpr LeavesTuning kTuning = OrderedLeavesTuning(sizeof(State));
  static constexpr int kWarps = kTuning.warps;
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kBlocksPerMultiprocessor = kTuning.blocks;
  static constexpr std::uint32_t kLargestLevel = kTuning.largest_level;
  static constexpr bool kHasShort = true;

  __device__ OrderedLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes) {}

  // Begins to load the leaf with which the next FoldRun starts.
  __device__ __forceinline__ void Prefetch(std::uint64_t leaf) { LoadVectors(leaf); }

  // Begins to load a leaf that is folded alone.
  __device__ __forceinline__ void PrefetchEdge(std::uint64_t leaf) { LoadVectors(leaf); }

  // The state of the aligned, full leaves [first, first + 2^level), the first of which has been prefetched;
  // in every lane. Ends by prefetching leaf `next`, if there is such a leaf.
  //
  // It does the same as WarpLeaves::FoldRun, but combines adjacent lanes first: lanes l and l + 1, then l and
  // l + 2, ...
  __device__ __forceinline__ State FoldRun(std::uint64_t first, std::uint32_t level, std::uint64_t next) {
    LeafState waiting[kLargestLevel];
    LeafState folded;
    for (std::uint32_t i = 0; i < 1u << level; ++i) {
      folded = FoldLane(i + 1 < 1u << level ? first + i + 1 : next);
      folded = PairUp(folded, i, level, waiting,
                      [this](const LeafState& left, const LeafState& right, std::uint32_t l) {
                        return Exchange(left, right, 1u << l);
                      });
    }
    for (std::uint32_t l = level; l < Log2(kLanes); ++l) folded = Join(folded, 1u << l);
    // The lowest bits of a leaf's lanes are now its number.
    const std::uint64_t leaf = first + lane_ % (1u << level);
    State state = op_.Widen(folded, leaf * kLeafElements);
    for (std::uint32_t l = 0; l < level; ++l) state = Join(state, 1u << l);
    return state;
  }

  __device__ __forceinline__ bool IsShort(std::uint64_t leaf) const {
    return range_.element_count - (leaf - range_.first_leaf) * kLeafElements < kLeafElements;
  }
  // The state of a short leaf, in lane 0.
  __device__ __forceinline__ State FoldShort(std::uint64_t leaf) {
    const std::uint64_t skipped = (leaf - range_.first_leaf) * kLeafElements;
    const auto count = static_cast<std::uint32_t>(range_.element_count - skipped);
    const std::uint32_t begin = lane_ * kLaneElements;
    const std::uint32_t end = begin + kLaneElements < count ? begin + kLaneElements : count;
    const Element* const elements = reinterpret_cast<const Element*>(range_.data) + skipped;
    LeafState state{};
    if (begin < end) {
      state = op_.Lift(elements[begin], begin);
      for (std::uint32_t i = begin + 1; i < end; ++i) state = AppendTo(op_, state, elements[i], i);
    }
    const std::uint32_t present = (count + kLaneElements - 1) / kLaneElements;
    for (std::uint32_t width = 1; width < present; width *= 2) {
      const LeafState right = ShuffleDown(state, width);
      if (lane_ % (2 * width) == 0 && lane_ + width < present) state = op_.Combine(state, right);
    }
    return op_.Widen(state, leaf * kLeafElements);
  }

 private:
  // Each lane has adjacent elements of a leaf.
  static constexpr std::uint32_t kLaneElements = kLeafElements / kLanes;
  static_assert(kLaneElements * kLanes * sizeof(Element) == kLeafBytes);

  // A lane's elements are 128 bytes, and a lane that read its own would touch a line for each of its loads.
  // The warp loads whole rows, as WarpLeaves does, and lanes find their elements in shared memory.
  static constexpr int kLaneVectors = static_cast<int>(kLeafBytes) / kLanes / kVectorBytes;
  // One vector is padding, so that eight lanes that read at once access 32 different banks.
  static constexpr int kLaneStride = kLaneVectors + 1;

  __device__ __forceinline__ void LoadVectors(std::uint64_t leaf, bool exists = true) {
    const auto* rows =
        reinterpret_cast<const uint4*>(range_.data + (leaf - range_.first_leaf) * kLeafBytes) + lane_;
#pragma unroll
    for (int row = 0; row < kLaneVectors; ++row) vectors_[row] = LoadStreamed(rows + row * kLanes, exists);
  }

  // Folds this lane's elements of the loaded leaf, and begins to load leaf `next`.
  __device__ __forceinline__ LeafState FoldLane(std::uint64_t next) {
    WARPFOLD_SHARED(uint4, staged, [kWarps][kLanes * kLaneStride]);
    uint4* const lanes = staged[threadIdx.x / kLanes];
    __syncwarp();  // the leaf before this one has been read
#pragma unroll
    for (int row = 0; row < kLaneVectors; ++row) {
      const int vector = row * kLanes + static_cast<int>(lane_);
      lanes[vector / kLaneVectors * kLaneStride + vector % kLaneVectors] = vectors_[row];
    }
    __syncwarp();
    LoadVectors(next, next != kNoLeaf);
    // A vector holds several elements, or an element consists of several vectors.
    constexpr std::uint32_t kVectors = sizeof(Element) > kVectorBytes ? sizeof(Element) / kVectorBytes : 1;
    constexpr std::uint32_t kElements = kVectors * kVectorBytes / sizeof(Element);
    constexpr std::uint32_t kSteps = kLaneVectors / kVectors;
    uint4 ahead[kVectors];  // of the next step: shared memory delivers it while this one is folded
    const auto read = [&](std::uint32_t step) {
#pragma unroll
      for (std::uint32_t v = 0; v < kVectors; ++v)
        ahead[v] = lanes[lane_ * kLaneStride + step * kVectors + v];
    };
    read(0);
    LeafState state;
    const auto fold = [&]<std::uint32_t kStep>(std::integral_constant<std::uint32_t, kStep>) {
      Element elements[kElements];
      std::memcpy(elements, ahead, sizeof elements);
      if (kStep + 1 < kSteps) read(kStep + 1);
#pragma unroll
      for (std::uint32_t c = 0; c < kElements; ++c) {
        const std::uint32_t offset = kStep * kElements + c;  // within the lane: a constant
        state =
            kStep == 0 && c == 0 ? op_.Lift(elements[c], offset) : AppendTo(op_, state, elements[c], offset);
      }
    };
    // As a loop, products with a modulus would not be unrolled.
    [&]<std::uint32_t... kStep>(std::integer_sequence<std::uint32_t, kStep...>) {
      (fold(std::integral_constant<std::uint32_t, kStep>()), ...);
    }
    (std::make_integer_sequence<std::uint32_t, kSteps>());
    return MovedBy(op_, state, lane_ * kLaneElements);
  }

  // Combines this lane's state with that of lane ^ distance, the lower lane's on the left.
  template <class S>
  __device__ __forceinline__ S Join(const S& state, std::uint32_t distance) const {
    const S other = ShuffleXor(state, distance);
    const bool upper = (lane_ & distance) != 0;
    const S left = Choose(upper, other, state);
    const S right = Choose(upper, state, other);
    return CombineEqualStates(op_, left, right);
  }

  // Combines lanes l and l + distance of two states of equally many leaves: those of `first` if the lane's
  // bit `distance` is clear, and of `second` if it is set.
  __device__ __forceinline__ LeafState Exchange(const LeafState& first, const LeafState& second,
                                                std::uint32_t distance) const {
    const bool upper = (lane_ & distance) != 0;
    const LeafState received = ShuffleXor(Choose(upper, first, second), distance);
    const LeafState left = Choose(upper, received, first);
    const LeafState right = Choose(upper, second, received);
    return CombineEqualStates(op_, left, right);
  }

  const Op op_;
  const Range range_;
  const std::uint32_t lane_;
  uint4 vectors_[kLaneVectors];  // this lane's part of the leaf loaded last
};

}  // namespace warpfold::kernels::cuda
