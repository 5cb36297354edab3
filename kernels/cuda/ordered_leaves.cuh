// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp reduces leaves of an operator that keeps array order.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cuda {

template <Operator Op>
class OrderedLeaves {
 public:
  using Operation = Op;
  using Element = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  static constexpr std::uint32_t kLeafElements = LeafElements(sizeof(Element));
  // Runs of a leaf, each the business of one lane. A warp takes kLeavesAtOnce leaves side by side.
  static constexpr std::uint32_t kRuns = kLeafElements < kLanes ? kLeafElements : kLanes;
  static constexpr std::uint32_t kLeavesAtOnce = kLanes / kRuns;
  static constexpr std::uint32_t kRunLevels = Log2(kRuns);
  static constexpr int kWarps = 4;  // matrices want registers more than they want warps
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kBlocksPerMultiprocessor = sizeof(State) <= 16 ? 6 : sizeof(Element) <= 8 ? 3 : 2;
  static constexpr std::uint32_t kSmallestLevel = Log2(kLeavesAtOnce);
  // Short runs, so that blocks end together; long ones where combining states is what takes the time.
  static constexpr std::uint32_t kLargestLevel = sizeof(State) <= 16 ? 3 : 5;

  __device__ OrderedLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes), run_(lane_ % kRuns) {}

  // Scalars are prefetched; matrices are loaded when they are folded: they leave no registers for more.
  __device__ __forceinline__ void Prefetch(std::uint64_t leaf) {
    if constexpr (kStaged) LoadVectors(leaf);
  }

  // The state of the aligned, full leaves [first, first + 2^level), level at least kSmallestLevel; in every
  // lane.
  //
  // As ScalarLeaves::FoldRun, but neighbours come first: lanes l and l + 1, then l and l + 2, ...
  __device__ __forceinline__ State FoldRun(std::uint64_t first, std::uint32_t level, std::uint64_t next) {
    const std::uint32_t steps_level = level - kSmallestLevel;
    LeafState waiting[kRunLevels > 0 ? kRunLevels : 1];
    LeafState folded;
    for (std::uint32_t i = 0; i < 1u << steps_level; ++i) {
      if constexpr (kStaged) {
        folded = FoldStaged(i + 1 < 1u << steps_level ? first + i + 1 : next);
      } else {
        folded = FoldLane(first + i * kLeavesAtOnce + lane_ / kRuns);
      }
      bool pairs = true;  // no break below: the loop must unroll for waiting to stay in registers
#pragma unroll
      for (std::uint32_t l = 0; l < kRunLevels; ++l) {
        if (!pairs || l >= steps_level) continue;
        pairs = (i >> l) % 2 == 1;
        if (pairs) {
          folded = Exchange(waiting[l], folded, 1u << l);
        } else {
          waiting[l] = folded;
        }
      }
    }
    for (std::uint32_t l = steps_level; l < kRunLevels; ++l) folded = Join(folded, 1u << l);
    // A leaf's number: above, the step, which the lowest bits of its lanes now are; below, its place in the
    // step.
    const std::uint64_t leaf = first + (lane_ % (1u << steps_level)) * kLeavesAtOnce + lane_ / kRuns;
    State state = op_.Widen(folded, leaf * kLeafElements);
    for (std::uint32_t l = kRunLevels; l < 5; ++l) state = Join(state, 1u << l);
    for (std::uint32_t l = 0; l < steps_level; ++l) state = Join(state, 1u << l);
    return state;
  }

  // The state of one leaf, which may be short; in lane 0.
  __device__ __forceinline__ State FoldEdge(std::uint64_t leaf) const {
    const std::uint64_t skipped = (leaf - range_.first_leaf) * kLeafElements;
    const std::uint64_t rest = range_.element_count - skipped;
    const std::uint32_t count = rest < kLeafElements ? static_cast<std::uint32_t>(rest) : kLeafElements;
    const std::uint32_t begin = lane_ * kRunElements;
    const std::uint32_t end = begin + kRunElements < count ? begin + kRunElements : count;
    LeafState state{};
    if (begin < end) {
      state = op_.Lift(Load(skipped + begin), begin);
      for (std::uint32_t i = begin + 1; i < end; ++i) state = AppendTo(op_, state, Load(skipped + i), i);
    }
    const std::uint32_t present = (count + kRunElements - 1) / kRunElements;
    for (std::uint32_t width = 1; width < present; width *= 2) {
      const LeafState right = ShuffleDown(state, width);
      if (lane_ % (2 * width) == 0 && lane_ + width < present) state = op_.Combine(state, right);
    }
    return op_.Widen(state, leaf * kLeafElements);
  }

 private:
  static constexpr std::uint32_t kRunElements = kLeafElements / kRuns;

  // By 16-byte loads where the size of an element allows: they are aligned because the range is.
  __device__ __forceinline__ Element Load(std::uint64_t index) const {
    const std::byte* const source = range_.data + index * sizeof(Element);
    Element element;
    if constexpr (sizeof(Element) % sizeof(uint4) == 0) {
      uint4 words[sizeof(Element) / sizeof(uint4)];
#pragma unroll
      for (std::size_t i = 0; i < sizeof(Element) / sizeof(uint4); ++i) {
        words[i] = __ldg(reinterpret_cast<const uint4*>(source) + i);
      }
      std::memcpy(&element, words, sizeof element);
    } else {
      element = *reinterpret_cast<const Element*>(source);
    }
    return element;
  }

  // Scalars: a run is 128 bytes, and a lane that read its own run would touch a line for each of its loads.
  // The warp loads whole rows, as ScalarLeaves does, and lanes find their runs in shared memory.
  static constexpr bool kStaged = sizeof(Element) <= 8;
  static constexpr int kRunVectors = kStaged ? static_cast<int>(kLeafBytes) / kLanes / kVectorBytes : 0;
  // A vector of padding, so that eight lanes that read at once find 32 different banks.
  static constexpr int kRunStride = kRunVectors + 1;

  __device__ __forceinline__ void LoadVectors(std::uint64_t leaf) {
    const auto* rows =
        reinterpret_cast<const uint4*>(range_.data + (leaf - range_.first_leaf) * kLeafBytes) + lane_;
#pragma unroll
    for (int row = 0; row < kRunVectors; ++row) vectors_[row] = __ldcs(rows + row * kLanes);
  }

  // Folds this lane's run of the loaded leaf, and begins to load leaf `next`.
  __device__ __forceinline__ LeafState FoldStaged(std::uint64_t next) {
    __shared__ uint4 staged[kStaged ? kWarps : 1][kStaged ? kLanes * kRunStride : 1];
    uint4* const runs = staged[threadIdx.x / kLanes];
    __syncwarp();  // the leaf before this one has been read
#pragma unroll
    for (int row = 0; row < kRunVectors; ++row) {
      const int vector = row * kLanes + static_cast<int>(lane_);
      runs[vector / kRunVectors * kRunStride + vector % kRunVectors] = vectors_[row];
    }
    __syncwarp();
    LoadVectors(next);
    constexpr std::uint32_t kVector = kVectorBytes / sizeof(Element);
    const std::uint32_t begin = lane_ * kRunElements;
    LeafState state;
#pragma unroll
    for (std::uint32_t v = 0; v < kRunVectors; ++v) {
      const uint4 vector = runs[lane_ * kRunStride + v];
      Element elements[kVector > 0 ? kVector : 1];
      std::memcpy(elements, &vector, sizeof vector);
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; ++c) {
        const std::uint32_t offset = begin + v * kVector + c;
        state = v == 0 && c == 0 ? op_.Lift(elements[c], offset) : AppendTo(op_, state, elements[c], offset);
      }
    }
    return state;
  }

  // This lane's run of a full leaf.
  __device__ __forceinline__ LeafState FoldLane(std::uint64_t leaf) const {
    const std::uint32_t begin = run_ * kRunElements;
    const std::uint64_t base = (leaf - range_.first_leaf) * kLeafElements + begin;
    LeafState state = op_.Lift(Load(base), begin);
    for (std::uint32_t i = 1; i < kRunElements; ++i) state = AppendTo(op_, state, Load(base + i), begin + i);
    return state;
  }

  // Combines this lane's state with that of lane ^ distance, the lower lane's on the left.
  template <class S>
  __device__ __forceinline__ S Join(const S& state, std::uint32_t distance) const {
    const S other = ShuffleXor(state, distance);
    const bool upper = (lane_ & distance) != 0;
    const S left = Choose(upper, other, state);
    const S right = Choose(upper, state, other);
    return op_.Combine(left, right);
  }

  // Combines lanes l and l + distance of two runs at once: of `first` where the lane's bit `distance` is
  // clear, of `second` where it is set.
  __device__ __forceinline__ LeafState Exchange(const LeafState& first, const LeafState& second,
                                                std::uint32_t distance) const {
    const bool upper = (lane_ & distance) != 0;
    const LeafState received = ShuffleXor(Choose(upper, first, second), distance);
    const LeafState left = Choose(upper, received, first);
    const LeafState right = Choose(upper, second, received);
    return op_.Combine(left, right);
  }

  const Op op_;
  const Range range_;
  const std::uint32_t lane_;
  const std::uint32_t run_;
  uint4 vectors_[kRunVectors > 0 ? kRunVectors : 1];  // this lane's part of the leaf loaded last
};

}  // namespace warpfold::kernels::cuda
