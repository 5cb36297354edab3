// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of the magnitudes, a double. Integers: the exact value, rounded once. Floats: in float64 along
// the canonical tree.
#pragma once

#include "kernels/operators/float_bounds.h"
#include "kernels/operators/integer_result.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct L1Norm;

template <IntegerElement T>
struct L1Norm<T, false> {
  using Element = T;
  using LeafState = LeafSum<T>;
  using State = Uint128;
  static constexpr const char* kName = "l1_norm";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const { return MagnitudeOf(x); }
  template <class S>
  WARPFOLD_FN S Combine(S a, S b) const {
    return a + b;
  }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return 0; }
  WARPFOLD_FN State Identity() const { return 0; }

  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const {
    return s <= Uint128{kLargestMagnitude<T>} * count;
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const {
    return {.value = Scalar::Of(RoundedQuotient(s, 1))};
  }
};

template <FloatElement T, bool kIgnoreNan>
struct L1Norm<T, kIgnoreNan> {
  using Element = T;
  using LeafState = double;
  using State = double;
  static constexpr const char* kName = "l1_norm";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    const double value = ValueOf(x);
    if constexpr (kIgnoreNan) {
      if (IsNan(x)) return 0.0;
    }
    return BitCast<double>(BitCast<std::uint64_t>(value) & ~kSignBit<double>);
  }
  WARPFOLD_FN State Combine(State a, State b) const { return a + b; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return 0.0; }
  WARPFOLD_FN State Identity() const { return 0.0; }
  State Canonical(State s) const { return CanonicalNan(s); }

  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const {
    return !IsBelowZero(s) && !(kIgnoreNan && s != s) && IsSumOfFloats<T>(s, count);
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const { return {.value = Scalar::Of(CanonicalNan(s))}; }
};

}  // namespace warpfold::kernels
