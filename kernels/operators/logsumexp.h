// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// log(sum(exp(x))), a double, as the largest element plus the logarithm of a sum of numbers up to 1, so that
// nothing overflows. exp and the logarithm at the end are our own, so that states and results have the same
// bits everywhere. The value differs from the exact one by at most 1e-14, absolutely where the exact one is
// below 1 in magnitude, and relatively elsewhere.
#pragma once

#include <limits>

#include "kernels/operators/float_bounds.h"
#include "kernels/operators/moments.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/portable_exp.h"
#include "kernels/operators/portable_log.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Logsumexp;

template <FloatElement T, bool kIgnoreNan>
struct Logsumexp<T, kIgnoreNan> {
  struct State {
    double largest;
    double sum;  // of exp(x - largest)
  };
  using Element = T;
  using LeafState = State;
  using First = double;
  using Second = double;
  static constexpr const char* kName = "logsumexp";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kScalarsOnly = true;
  static constexpr bool kApproximate = true;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    if (IsIgnored<T, kIgnoreNan>(x)) return Identity();
    const double value = LiftFirst(x);
    return {value, LiftSecond(x, value)};
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const {
    const double largest = CombineFirst(a.largest, b.largest);
    return {largest, Scaled(a, largest) + Scaled(b, largest)};
  }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const { return {kLowest, 0}; }
  State Canonical(const State& s) const { return {CanonicalNan(s.largest), CanonicalNan(s.sum)}; }

  // Turns -0.0 into 0.0: the two are equal here, and which of them is the larger must not depend on the
  // order.
  WARPFOLD_FN First LiftFirst(T x) const {
    if (IsIgnored<T, kIgnoreNan>(x)) return kLowest;
    return static_cast<double>(ValueOf(x)) + 0.0;
  }
  WARPFOLD_FN First FirstIdentity() const { return kLowest; }
  WARPFOLD_FN First CombineFirst(First a, First b) const { return a > b || a != a ? a : b; }
  WARPFOLD_FN double Center(First first, std::uint32_t) const { return first; }
  WARPFOLD_FN Second LiftSecond(T x, double center) const {
    if (IsIgnored<T, kIgnoreNan>(x)) return 0;
    const double value = ValueOf(x);
    return value == center ? 1.0 : ExpOfNegative(value - center);  // infinity minus itself is NaN
  }
  WARPFOLD_FN Second CombineSecond(Second a, Second b) const { return a + b; }
  WARPFOLD_FN LeafState Join(First, double center, Second second, std::uint32_t) const {
    return {center, second};
  }

  bool IsPossible(const State& s, std::uint64_t, std::uint64_t count) const {
    if (s.sum == 0) return kIgnoreNan && s.largest == kLowest;  // nothing but NaN
    if (s.largest != s.largest) return !kIgnoreNan && s.sum != s.sum;
    // The largest element gives 1, and no element gives more.
    return s.sum >= 1 && s.sum <= static_cast<double>(count) * (1 + 0x1p-40) &&
           IsSumOfFloats<T>(s.largest, 1);
  }
  WARPFOLD_FN Outcome Finish(const State& s, std::uint64_t) const {
    if (s.sum == 0) return {.value = Scalar::Of(kLowest)};
    return {.value = Scalar::Of(CanonicalNan(s.largest + Logarithm(s.sum)))};
  }

 private:
  static constexpr double kLowest = -std::numeric_limits<double>::infinity();

  static WARPFOLD_FN double Scaled(const State& s, double largest) {
    return s.largest == largest ? s.sum : s.sum * ExpOfNegative(s.largest - largest);
  }
};

}  // namespace warpfold::kernels
