// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a lane folds its elements of a leaf one by one, in the canonical order or, for an operator that is
// AnyOrder, in another one.
#pragma once

#include <cstdint>

#include "kernels/cuda/pair_up.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/vectors.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// One sweep over a lane's elements. Op is an operator over scalars, or one of the two passes of an operator
// that sweeps twice (two_sweeps.cuh): a type with Element, LeafState, Lift, Combine and LeafIdentity.
//
// `vectors` is the lane's part of the leaf, and its first element is `first` elements into the leaf.
//
// Lift and Combine are called through lambdas: called directly, they make nvcc 13 spill registers in argmin
// of float64.
template <class Op>
class LaneSweep {
 public:
  using T = typename Op::Element;
  using State = typename Op::LeafState;

  // The state of a full leaf's part: folds the columns, then their states pairwise. Small states: all columns
  // at once, row by row, for instruction-level parallelism. Large states: one column at a time, to limit
  // register use.
  static __device__ __forceinline__ State Fold(const Op& op, const LaneVectors& vectors,
                                               std::uint32_t first) {
    const auto lift = [&op](T x, std::uint32_t i) { return op.Lift(x, i); };
    const auto combine = [&op](const State& a, const State& b) { return op.Combine(a, b); };
    if constexpr (sizeof(State) * kVector > kMaxColumnBytes) {
      return FoldColumns<0, kVector>(vectors, first, lift, combine);
    } else {
      // If any order is allowed, several rows have separate states: see kMinColumns.
      constexpr std::uint32_t kRows = AnyOrder<Op> && kVector < kMinColumns ? kMinColumns / kVector : 1;
      constexpr std::uint32_t kColumns = kRows * kVector;
      State columns[kColumns];
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
#pragma unroll
        for (std::uint32_t c = 0; c < kVector; ++c) {
          const State lifted = lift(ElementOf<T>(vectors[row], c), row * kRowElements + first + c);
          State& column = columns[row % kRows * kVector + c];
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

  // The same for a short leaf with only `count` elements. It loops over the columns without unrolling: the
  // code runs once per launch, and unrolled it would be most of the kernel's instructions.
  static __device__ __forceinline__ State FoldShort(const Op& op, const LaneVectors& vectors,
                                                    std::uint32_t first, std::uint32_t count) {
    constexpr std::uint32_t kLevels = Log2(kVector);
    const auto lift = [&op](T x, std::uint32_t i) { return op.Lift(x, i); };
    const auto combine = [&op](const State& a, const State& b) { return op.Combine(a, b); };
    const State identity = op.LeafIdentity();
    State waiting[kLevels];
    State folded;
#pragma unroll 1
    for (std::uint32_t c = 0; c < kVector; ++c) {
      folded = identity;
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
        const std::uint32_t i = row * kRowElements + first + c;
        if (i < count) folded = combine(folded, lift(ElementAt<T>(vectors[row], c), i));
      }
      folded = PairUp(folded, c, kLevels, waiting, [&](const State& left, const State& right, std::uint32_t) {
        return combine(left, right);
      });
    }
    return folded;
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kRowElements = kRowBytes / sizeof(T);

  // Columns [kBegin, kEnd).
  template <std::uint32_t kBegin, std::uint32_t kEnd, class Lift, class Combine>
  static __device__ __forceinline__ State FoldColumns(const LaneVectors& vectors, std::uint32_t first,
                                                      const Lift& lift, const Combine& combine) {
    if constexpr (kEnd - kBegin > 1) {
      constexpr std::uint32_t kMiddle = (kBegin + kEnd) / 2;
      const State left = FoldColumns<kBegin, kMiddle>(vectors, first, lift, combine);
      return combine(left, FoldColumns<kMiddle, kEnd>(vectors, first, lift, combine));
    } else {
      State state;
#pragma unroll
      for (int row = 0; row < kLeafRows; ++row) {
        const State lifted = lift(ElementOf<T>(vectors[row], kBegin), row * kRowElements + first + kBegin);
        state = row == 0 ? lifted : combine(state, lifted);
      }
      return state;
    }
  }
};

}  // namespace warpfold::kernels::cuda
