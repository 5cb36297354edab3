// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic mean. Integers: the exact quotient, rounded once. Floats: the canonical sum over the count.
#pragma once

#include <cmath>

#include "kernels/operators/float_bounds.h"
#include "kernels/operators/integer_result.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Mean;

template <IntegerElement T>
struct Mean<T, false> : Sum<T, false> {
  using Reducer = Sum<T, false>;
  static constexpr const char* kName = "mean";
  static constexpr bool kHasIdentity = false;

  WARPFOLD_FN Outcome Finish(typename Reducer::State s, std::uint64_t count) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    const bool negative = kIsSigned<T> && static_cast<Int128>(s) < 0;
    const double magnitude = RoundedQuotient(negative ? -s : s, count);
    return {.value = Scalar::Of(negative ? -magnitude : magnitude)};
  }
};

template <FloatElement T>
struct Mean<T, false> : Sum<T, false> {
  using Reducer = Sum<T, false>;
  static constexpr const char* kName = "mean";
  static constexpr bool kHasIdentity = false;

  WARPFOLD_FN Outcome Finish(double s, std::uint64_t count) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    return {.value = Scalar::Of(CanonicalNan(s / static_cast<double>(count)))};
  }
};

// If NaN are ignored, the count is not that of the array.
template <FloatElement T>
struct Mean<T, true> {
  struct State {
    double sum;
    std::uint64_t count;
  };
  using Element = T;
  using LeafState = State;
  static constexpr const char* kName = "mean";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    return IsNan(x) ? Identity() : State{double{ValueOf(x)}, 1};
  }
  WARPFOLD_FN State Combine(State a, State b) const { return {a.sum + b.sum, a.count + b.count}; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const { return {-0.0, 0}; }
  State Canonical(State s) const { return {CanonicalNan(s.sum), s.count}; }

  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const {
    if (s.count > count || (s.count == 1 && s.sum != s.sum)) return false;
    return s.count == 0 ? s.sum == 0 && std::signbit(s.sum) : IsSumOfFloats<T>(s.sum, s.count);
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t count) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    // Nothing but NaN: NaN, as with numpy.nanmean.
    return {.value = Scalar::Of(CanonicalNan(s.sum / static_cast<double>(s.count)))};
  }
};

}  // namespace warpfold::kernels
