// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a lane folds its vectors of some rows of a leaf, the last of which may be absent: steps 1 and 2 of the
// canonical order (docs/canonical-order.md) for a leaf that lies in a warp's registers.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/two_sweeps.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <ScalarOperator Op>
class LaneRows {
 public:
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);

  __device__ LaneRows(const Op& op, std::uint32_t lane) : op_(op), lane_(lane) {}

  // The state of the lane's columns in a leaf whose kRows rows begin with vectors[kFirst]. The lane has the
  // first `present` of them; if it has none, the state is the identity.
  template <int kFirst, int kRows>
  __device__ __forceinline__ LeafState Fold(LaneVectors& vectors, std::uint32_t present) const {
    if constexpr (SweepsExtremesApart<Op>) {
      // This is a separate sweep before the others: together they would need more registers than there are.
      const typename Op::Extremes range_op;
      using S = typename Op::Extremes::State;
      S range = Sweep<kFirst, kRows>(
          vectors, present, range_op.Identity(), [&](T x, std::uint32_t i) { return range_op.Lift(x, i); },
          [&](const S& a, const S& b) { return range_op.Combine(a, b); });
      Pin(range);
      LeafState folded = FoldBySweeps<kFirst, kRows>(vectors, present);
      folded.range = range;  // the compiler drops what computed the other one
      return folded;
    } else {
      return FoldBySweeps<kFirst, kRows>(vectors, present);
    }
  }

 private:
  static constexpr std::uint32_t kRowElements = kRowBytes / sizeof(T);

  template <int kFirst, int kRows>
  __device__ __forceinline__ LeafState FoldBySweeps(LaneVectors& vectors, std::uint32_t present) const {
    if constexpr (TwoSweeps<Op>) {
      return SweepTwice<kFirst, kRows>(vectors, present);
    } else {
      return Sweep<kFirst, kRows>(
          vectors, present, op_.LeafIdentity(), [this](T x, std::uint32_t i) { return op_.Lift(x, i); },
          [this](const LeafState& a, const LeafState& b) { return op_.Combine(a, b); });
    }
  }

  template <int kFirst, int kRows>
  __device__ __forceinline__ LeafState SweepTwice(LaneVectors& vectors, std::uint32_t present) const {
    using First = typename Op::First;
    using Second = typename Op::Second;
    const First first = Sweep<kFirst, kRows>(
        vectors, present, op_.FirstIdentity(), [this](T x, std::uint32_t) { return op_.LiftFirst(x); },
        [this](const First& a, const First& b) { return op_.CombineFirst(a, b); });
    const double center = op_.Center(first, present * kVector);
    ForgetConversions<T, kFirst, kRows>(vectors, center);
    const Second second = Sweep<kFirst, kRows>(
        vectors, present, Second{}, [=, this](T x, std::uint32_t) { return op_.LiftSecond(x, center); },
        [this](const Second& a, const Second& b) { return op_.CombineSecond(a, b); });
    return Choose(present == 0, op_.LeafIdentity(), op_.Join(first, center, second, present * kVector));
  }

  // Small states: all columns side by side. Others: one column after the other, to save registers.
  template <int kFirst, int kRows, class S, class Lift, class Combine>
  __device__ __forceinline__ S Sweep(const LaneVectors& vectors, std::uint32_t present, const S& identity,
                                     const Lift& lift, const Combine& combine) const {
    S folded;
    if constexpr (sizeof(S) * kVector > kMaxSegmentColumnBytes) {
      folded = SweepColumns<kFirst, kRows, 0, kVector, S>(vectors, present, lift, combine);
    } else {
      folded = SweepSideBySide<kFirst, kRows, S>(vectors, present, lift, combine);
    }
    return Choose(present == 0, identity, folded);
  }

  template <int kFirst, int kRows, class S, class Lift, class Combine>
  __device__ __forceinline__ S SweepSideBySide(const LaneVectors& vectors, std::uint32_t present,
                                               const Lift& lift, const Combine& combine) const {
    S columns[kVector];
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (row > 0 && row >= static_cast<int>(present)) continue;
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; ++c) {
        const S lifted = lift(ElementOf<T>(vectors[kFirst + row], c), Offset(row, c));
        columns[c] = row == 0 ? lifted : combine(columns[c], lifted);
      }
    }
#pragma unroll
    for (std::uint32_t width = 1; width < kVector; width *= 2) {
#pragma unroll
      for (std::uint32_t c = 0; c < kVector; c += 2 * width) {
        columns[c] = combine(columns[c], columns[c + width]);
      }
    }
    return columns[0];
  }

  // Columns [kBegin, kEnd).
  template <int kFirst, int kRows, std::uint32_t kBegin, std::uint32_t kEnd, class S, class Lift,
            class Combine>
  __device__ __forceinline__ S SweepColumns(const LaneVectors& vectors, std::uint32_t present,
                                            const Lift& lift, const Combine& combine) const {
    if constexpr (kEnd - kBegin > 1) {
      constexpr std::uint32_t kMiddle = (kBegin + kEnd) / 2;
      const S left = SweepColumns<kFirst, kRows, kBegin, kMiddle, S>(vectors, present, lift, combine);
      return combine(left, SweepColumns<kFirst, kRows, kMiddle, kEnd, S>(vectors, present, lift, combine));
    } else {
      S state = lift(ElementOf<T>(vectors[kFirst], kBegin), Offset(0, kBegin));
#pragma unroll
      for (int row = 1; row < kRows; ++row) {
        if (row >= static_cast<int>(present)) continue;
        state = combine(state, lift(ElementOf<T>(vectors[kFirst + row], kBegin), Offset(row, kBegin)));
      }
      return state;
    }
  }

  __device__ __forceinline__ std::uint32_t Offset(int row, std::uint32_t column) const {
    return row * kRowElements + lane_ * kVector + column;
  }

  const Op op_;
  const std::uint32_t lane_;
};

}  // namespace warpfold::kernels::cuda
