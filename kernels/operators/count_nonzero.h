// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many elements differ from zero. NaN does, unless ignored.
#pragma once

#include <type_traits>

#include "kernels/operators/operator.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct CountNonzero;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct CountNonzero<T, kIgnoreNan> {
  using Element = T;
  using LeafState = std::uint32_t;
  using State = std::uint64_t;
  // Integers are zero if all of their bits are, and floats if all except the sign are, whatever else the bits
  // mean. Only ignoring NaN requires knowing which of the two half types it is.
  using SameBytes =
      CountNonzero<std::conditional_t<IntegerElement<T>, Bits<T>,
                                      std::conditional_t<HalfElement<T> && !kIgnoreNan, Float16, T>>,
                   kIgnoreNan>;
  static constexpr const char* kName = "count_nonzero";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    const auto value = ValueOf(x);
    if constexpr (kIgnoreNan) return value < 0 || value > 0;
    return value != 0;
  }
  template <class S>
  WARPFOLD_FN S Combine(S a, S b) const {
    return a + b;
  }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return 0; }
  WARPFOLD_FN State Identity() const { return 0; }
  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const { return s <= count; }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const { return {.value = Scalar::Of(s)}; }
};

}  // namespace warpfold::kernels
