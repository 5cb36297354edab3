// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a group of lanes folds one leaf that lies in shared memory: several short segments at once, each by a
// group, or a whole leaf by a warp. It follows the canonical order (docs/canonical-order.md) for elements of
// any width.
#pragma once

#include <cstdint>

#include "kernels/cuda/pair_up.cuh"
#include "kernels/cuda/segments/element_reader.cuh"
#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// Elements of a leaf, or fewer, in a warp's shared memory.
struct LeafElementsAt {
  const std::byte* memory;  // 16-byte aligned
  std::uint32_t offset;     // bytes
  std::uint32_t count;      // may be 0
};

// Lanes that fold a leaf together: `size` adjacent ones, a power of two.
struct LaneGroup {
  std::uint32_t lane;  // within the group
  std::uint32_t size;
  std::uint32_t rows;  // of kRowBytes, that the longest leaf of all groups has
};

template <Operator Op>
class SegmentLeaf {
 public:
  using Wide = typename Op::Element;
  using LeafState = typename Op::LeafState;

  __device__ SegmentLeaf(const Op& op, const SegmentPlan& plan)
      : op_(op), type_(plan.type), element_shift_(plan.element_shift), lane_shift_(plan.leaf_shift - 5) {}

  // The place in shared memory to which vector v of the copied bytes goes. In array order each lane reads its
  // own 128 bytes: lanes then find adjacent vectors in different banks.
  static __device__ __forceinline__ std::uint32_t VectorPlace(std::uint32_t v) {
    return Op::kCommutative ? v : v ^ (v >> 3) % 8;
  }

  // The groups for leaves the longest of which has `count` elements.
  __device__ __forceinline__ LaneGroup GroupFor(std::uint32_t count) const {
    const std::uint32_t size = LanesFor(count);
    const std::uint32_t rows = ((count << element_shift_) + kRowBytes - 1) / kRowBytes;
    return {threadIdx.x % kLanes % size, size, rows};
  }

  // The leaf's state, at least in the group's first lane. The whole warp calls this, with groups of equal
  // size.
  __device__ __forceinline__ LeafState Fold(const LeafElementsAt& elements, const LaneGroup& group) const {
    if constexpr (Op::kCommutative) {
      LeafState state = FoldLane(elements, group);
#pragma unroll 1
      for (std::uint32_t distance = group.size / 2; distance > 0; distance /= 2) {
        state = op_.Combine(state, ShuffleXor(state, static_cast<int>(distance)));
      }
      return state;
    } else {
      LeafState state = FoldInOrder(elements, group.lane);
      const std::uint32_t lanes = (elements.count + (1u << lane_shift_) - 1) >> lane_shift_;
#pragma unroll 1
      for (std::uint32_t width = 1; width < group.size; width *= 2) {
        const LeafState right = ShuffleDown(state, static_cast<int>(width));
        if (group.lane % (2 * width) == 0 && group.lane + width < lanes) state = op_.Combine(state, right);
      }
      return state;
    }
  }

 private:
  static constexpr std::uint32_t kVectorShift = Log2(kVectorBytes);
  static constexpr std::uint32_t kMaxLevels = kVectorShift;  // of the tree over a lane's columns

  // How many lanes a leaf of `count` elements keeps busy, up to the next power of two.
  __device__ __forceinline__ std::uint32_t LanesFor(std::uint32_t count) const {
    const std::uint32_t each_shift = Op::kCommutative ? kVectorShift - element_shift_ : lane_shift_;
    const std::uint32_t lanes = (count + (1u << each_shift) - 1) >> each_shift;
    return lanes <= 1 ? 1 : lanes >= kLanes ? kLanes : 1u << (32 - __clz(lanes - 1));
  }

  // log2 of a lane's columns.
  __device__ __forceinline__ std::uint32_t levels() const { return kVectorShift - element_shift_; }

  // Lanes that are eight apart read different words of their vectors, and so different banks. The tree over
  // the columns is the same from whichever column it starts, except that left and right may be exchanged,
  // which makes no difference.
  __device__ __forceinline__ std::uint32_t FirstColumn() const {
    const std::uint32_t turn = threadIdx.x / 8 % 4;
    return element_shift_ == 3 ? turn % 2 : turn << (2 - element_shift_);
  }

  // The tree over one lane's columns, each folded from the first row to the last.
  template <class S, class Lift, class Combine>
  __device__ __forceinline__ S Sweep(const LeafElementsAt& elements, const LaneGroup& group,
                                     const S& identity, const Lift& lift, const Combine& combine) const {
    const std::uint32_t row_shift = levels() + Log2(kLanes);  // of elements
    const std::uint32_t first_column = FirstColumn();
    S waiting[kMaxLevels];  // waiting[l]: 2^l columns that have no partner yet
    S folded = identity;
#pragma unroll 1
    for (std::uint32_t step = 0; step < 1u << levels(); ++step) {
      const std::uint32_t first = (group.lane << levels()) + (step ^ first_column);
      const std::uint32_t rows = first < elements.count ? ((elements.count - 1 - first) >> row_shift) + 1 : 0;
      const std::byte* const column = elements.memory + elements.offset + (first << element_shift_);
      folded = identity;
#pragma unroll 1
      for (std::uint32_t row = 0; row < group.rows; row += kReadAtOnce) {
        const std::uint32_t rest = row < rows ? rows - row : 0;
        Wide x[kReadAtOnce];
        ReadElements(
            type_, [=](std::uint32_t r) { return column + (row + r) * kRowBytes; }, rest, x);
#pragma unroll
        for (std::uint32_t r = 0; r < kReadAtOnce; ++r) {
          if (r < rest) folded = combine(folded, lift(x[r], first + ((row + r) << row_shift)));
        }
      }
      folded =
          PairUp(folded, step, levels(), waiting,
                 [&](const auto& left, const auto& right, std::uint32_t) { return combine(left, right); });
    }
    return folded;
  }

  __device__ __forceinline__ LeafState FoldLane(const LeafElementsAt& elements,
                                                const LaneGroup& group) const {
    if constexpr (TwoSweeps<Op>) {
      using First = typename Op::First;
      using Second = typename Op::Second;
      const std::uint32_t present = PresentInLane(elements.count, group.lane, levels());
      if (present == 0) return op_.LeafIdentity();
      const First first = Sweep(
          elements, group, op_.FirstIdentity(), [this](Wide x, std::uint32_t) { return op_.LiftFirst(x); },
          [this](const First& a, const First& b) { return op_.CombineFirst(a, b); });
      const double center = op_.Center(first, present);
      const Second second = Sweep(
          elements, group, Second{},
          [this, center](Wide x, std::uint32_t) { return op_.LiftSecond(x, center); },
          [this](const Second& a, const Second& b) { return op_.CombineSecond(a, b); });
      return op_.Join(first, center, second, present);
    } else {
      return Sweep(
          elements, group, op_.LeafIdentity(), [this](Wide x, std::uint32_t i) { return op_.Lift(x, i); },
          [this](const LeafState& a, const LeafState& b) { return op_.Combine(a, b); });
    }
  }

  // Folds a lane's elements, which are adjacent, from the first to the last.
  __device__ __forceinline__ LeafState FoldInOrder(const LeafElementsAt& elements, std::uint32_t lane) const {
    const std::uint32_t begin = lane << lane_shift_;
    const std::uint32_t end = min(begin + (1u << lane_shift_), elements.count);
    LeafState state = op_.LeafIdentity();
#pragma unroll 1
    for (std::uint32_t i = begin; i < end; i += kReadAtOnce) {
      Wide x[kReadAtOnce];
      const auto place = [&](std::uint32_t element) {
        const std::uint32_t byte = elements.offset + ((i + element) << element_shift_);
        return elements.memory + (VectorPlace(byte / kVectorBytes) * kVectorBytes + byte % kVectorBytes);
      };
      ReadElements(type_, place, end - i, x);
#pragma unroll
      for (std::uint32_t r = 0; r < kReadAtOnce; ++r) {
        if (r >= end - i) continue;
        state = i + r == begin ? op_.Lift(x[r], i + r) : AppendTo(op_, state, x[r], i + r);
      }
    }
    return state;
  }

  const Op op_;
  const ElementType type_;
  const std::uint32_t element_shift_;
  const std::uint32_t lane_shift_;  // log2 of a lane's elements
};

}  // namespace warpfold::kernels::cuda
