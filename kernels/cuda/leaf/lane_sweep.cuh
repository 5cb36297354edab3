// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a lane folds its elements of a leaf one by one, in the canonical order, or, of an operator that is
// AnyOrder, in another one: the way that every operator over scalars can go.
#pragma once

#include <cstdint>

#include "kernels/cuda/tuning.h"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <ScalarOperator Op>
class LaneSweep {
 public:
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;

  // Of `vectors`, the lane's part of a leaf, whose first element is `first` elements into the leaf.
  __device__ LaneSweep(const Op& op, LaneVectors& vectors, std::uint32_t first)
      : op_(op), vectors_(vectors), first_(first) {}

  // The state of a full leaf's part: in one sweep over the elements, or in two.
  __device__ __forceinline__ LeafState Fold() {
    if constexpr (TwoSweeps<Op>) {
      const auto first = Sweep<typename Op::First>(LiftFirst(), CombineFirst());
      return SweepAgain(first, kLaneElements, [this](auto identity, const auto& lift, const auto& combine) {
        return Sweep<decltype(identity)>(lift, combine);
      });
    } else {
      return Sweep<LeafState>([this](T x, std::uint32_t i) { return op_.Lift(x, i); },
                              [this](const LeafState& a, const LeafState& b) { return op_.Combine(a, b); });
    }
  }

  // The same of a leaf of which only the first `count` elements exist.
  __device__ __forceinline__ LeafState FoldShort(std::uint32_t count) {
    if constexpr (TwoSweeps<Op>) {
      const std::uint32_t present = Present(count);
      if (present == 0) return op_.LeafIdentity();
      const auto first = SweepShort(count, op_.FirstIdentity(), LiftFirst(), CombineFirst());
      return SweepAgain(first, present, [=, this](auto identity, const auto& lift, const auto& combine) {
        return SweepShort(count, identity, lift, combine);
      });
    } else {
      return SweepShort(
          count, op_.LeafIdentity(), [this](T x, std::uint32_t i) { return op_.Lift(x, i); },
          [this](const LeafState& a, const LeafState& b) { return op_.Combine(a, b); });
    }
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kRowElements = kRowBytes / sizeof(T);
  static constexpr std::uint32_t kLaneElements = kLeafRows * kVector;

  // Folds the columns, then their states pairwise. Small states: all columns at once, row by row, for there
  // is much to do side by side. Others: column by column, for registers.
  template <class S, class Lift, class Combine>
  __device__ __forceinline__ S Sweep(const Lift& lift, const Combine& combine) const {
    if constexpr (sizeof(S) * kVector > kMostColumnBytes) {
      return SweepColumns<S, 0, kVector>(lift, combine);
    } else {
      // Where any order will do, several rows have states of their own: see kFewestColumns.
      constexpr std::uint32_t kRows = AnyOrder<Op> && kVector < kFewestColumns ? kFewestColumns / kVector : 1;
      constexpr std::uint32_t kColumns = kRows * kVector;
      S columns[kColumns];
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
#pragma unroll
        for (std::uint32_t c = 0; c < kVector; ++c) {
          const S lifted = lift(ElementOf<T>(vectors_[row], c), row * kRowElements + first_ + c);
          S& column = columns[row % kRows * kVector + c];
          column = row < static_cast<int>(kRows) ? lifted : combine(column, lifted);
        }
      }
#pragma unroll
      for (std::uint32_t width = 1; width < kColumns; width *= 2) {
#pragma unroll
        for (std::uint32_t c = 0; c < kColumns; c += 2 * width)
          columns[c] = combine(columns[c], columns[c + width]);
      }
      return columns[0];
    }
  }

  // Columns [kBegin, kEnd).
  template <class S, std::uint32_t kBegin, std::uint32_t kEnd, class Lift, class Combine>
  __device__ __forceinline__ S SweepColumns(const Lift& lift, const Combine& combine) const {
    if constexpr (kEnd - kBegin > 1) {
      constexpr std::uint32_t kMiddle = (kBegin + kEnd) / 2;
      const S left = SweepColumns<S, kBegin, kMiddle>(lift, combine);
      return combine(left, SweepColumns<S, kMiddle, kEnd>(lift, combine));
    } else {
      S state;
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
        const S lifted = lift(ElementOf<T>(vectors_[row], kBegin), row * kRowElements + first_ + kBegin);
        state = row == 0 ? lifted : combine(state, lifted);
      }
      return state;
    }
  }

  // Folds the columns of a short leaf, one after the other in a loop. This code runs once a launch, and would
  // be most of the kernel if it were unrolled.
  template <class S, class Lift, class Combine>
  __device__ __forceinline__ S SweepShort(std::uint32_t count, const S& identity, const Lift& lift,
                                          const Combine& combine) const {
    constexpr std::uint32_t kLevels = Log2(kVector);
    S waiting[kLevels];  // waiting[l]: 2^l columns that have no partner yet
    S folded;
#pragma unroll 1
    for (std::uint32_t c = 0; c < kVector; ++c) {
      folded = identity;
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
        const std::uint32_t i = row * kRowElements + first_ + c;
        if (i < count) folded = combine(folded, lift(ElementAt<T>(vectors_[row], c), i));
      }
      bool pairs = true;  // no break below: the loop must unroll for waiting to stay in registers
#pragma unroll
      for (std::uint32_t l = 0; l < kLevels; ++l) {
        if (!pairs) continue;
        pairs = (c >> l) % 2 == 1;
        if (pairs) {
          folded = combine(waiting[l], folded);
        } else {
          waiting[l] = folded;
        }
      }
    }
    return folded;
  }

  // How many of a leaf's first `count` elements are in this lane's vectors.
  __device__ __forceinline__ std::uint32_t Present(std::uint32_t count) const {
    const std::uint32_t rest = count % kRowElements;
    return count / kRowElements * kVector + (rest <= first_ ? 0 : min(rest - first_, kVector));
  }

  __device__ __forceinline__ auto LiftFirst() const {
    return [this](T x, std::uint32_t) { return op_.LiftFirst(x); };
  }
  __device__ __forceinline__ auto CombineFirst() const {
    return [this](const auto& a, const auto& b) { return op_.CombineFirst(a, b); };
  }

  // ptxas keeps elements that it has converted for one sweep until the other, in more registers than there
  // are; those of 32 bits it also converts before it knows the center. So it must not know that the elements
  // are the same.
  __device__ __forceinline__ void ForgetConversions(double center) {
    if constexpr (sizeof(T) == 4 || HalfElement<T>) {
      std::uint32_t zero = OpaqueZero();
      if constexpr (sizeof(T) == 4) zero &= static_cast<std::uint32_t>(__double2hiint(center));
#pragma unroll
      for (uint4& v : vectors_) v = {v.x ^ zero, v.y ^ zero, v.z ^ zero, v.w ^ zero};
    }
  }

  // The second sweep, over `present` elements.
  template <class First, class SweepOnce>
  __device__ __forceinline__ LeafState SweepAgain(const First& first, std::uint32_t present,
                                                  const SweepOnce& sweep) {
    using Second = typename Op::Second;
    const double center = op_.Center(first, present);
    ForgetConversions(center);
    const Second second = sweep(
        Second{}, [=, this](T x, std::uint32_t) { return op_.LiftSecond(x, center); },
        [this](const Second& a, const Second& b) { return op_.CombineSecond(a, b); });
    return op_.Join(first, center, second, present);
  }

  const Op& op_;
  LaneVectors& vectors_;
  const std::uint32_t first_;
};

}  // namespace warpfold::kernels::cuda
