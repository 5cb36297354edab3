// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Count, mean and sum of squared deviations, merged pairwise: T. F. Chan, G. H. Golub, R. J. LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances" (1979), in a form that is
// symmetric to the bit. A lane sweeps its elements twice: first for their mean, then for their deviations
// from it.
#pragma once

#include <cmath>

#include "kernels/operators/operator.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels {

struct Moments {
  double mean;
  double deviations;  // sum of squares of x - mean
  std::uint64_t count;
};

WARPFOLD_FN Moments MergeMoments(const Moments& a, const Moments& b) {
  const std::uint64_t count = a.count + b.count;
  if (a.count == b.count) {  // as whole leaves are: without a division; or both are empty
    const double step = b.mean - a.mean;
    const double half = 0.5 * static_cast<double>(a.count);
    return {0.5 * a.mean + 0.5 * b.mean, a.deviations + b.deviations + step * step * half, count};
  }
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  // From the mean of more elements, so that equal means stay what they are: a constant array does not vary.
  const Moments& more = a.count > b.count ? a : b;
  const Moments& less = a.count > b.count ? b : a;
  const double step = less.mean - more.mean;
  const double share = static_cast<double>(less.count) / static_cast<double>(count);
  return {more.mean + step * share,
          a.deviations + b.deviations + step * step * (static_cast<double>(more.count) * share), count};
}

inline Moments CanonicalMoments(const Moments& m) {
  return {CanonicalNan(m.mean), CanonicalNan(m.deviations), m.count};
}

// What a lane learns in its first sweep where some elements are ignored. Otherwise the sum is enough.
struct CountedSum {
  double sum;
  std::uint32_t count;
};

WARPFOLD_FN CountedSum operator+(CountedSum a, CountedSum b) { return {a.sum + b.sum, a.count + b.count}; }

// Lanes add these elements as integers: a double holds the sum exactly, and no element is converted.
template <class T>
inline constexpr bool kHasIntegerLanes = IntegerElement<T> && sizeof(T) <= 4;

template <class T, bool kCounts>
struct LaneSum {
  using type = std::conditional_t<kCounts, CountedSum, double>;
};
template <class T>
requires kHasIntegerLanes<T>
struct LaneSum<T, false> {
  using type = typename Sum<T, false>::LeafState;
};

template <AnyElement T, bool kIgnoreNan>
WARPFOLD_FN bool IsIgnored(T x) {
  if constexpr (kIgnoreNan && FloatElement<T>) {
    return IsNan(x);
  } else {
    return false;
  }
}

// variance and stddev, but for their results.
template <AnyElement T, bool kIgnoreNan>
struct MomentsOperator {
  using Element = T;
  using LeafState = Moments;
  using State = Moments;
  static constexpr bool kCounts = kIgnoreNan && FloatElement<T>;
  using First = typename LaneSum<T, kCounts>::type;
  using Second = double;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kScalarsOnly = true;
  static constexpr bool kApproximate = true;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    if (IsIgnored<T, kIgnoreNan>(x)) return Identity();
    const auto value = DoubleOf(x);
    return {value, value - value, 1};  // NaN of infinities, as the sweeps have it
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const { return MergeMoments(a, b); }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const { return {0, 0, 0}; }
  State Canonical(const State& s) const { return CanonicalMoments(s); }
  bool IsPossible(const State& s, std::uint64_t, std::uint64_t count) const { return ArePossible(s, count); }
  static bool ArePossible(const Moments& m, std::uint64_t count) {
    const bool counts = kIgnoreNan && FloatElement<T> ? m.count <= count : m.count == count;
    return counts && !(m.deviations < 0);
  }

  WARPFOLD_FN First LiftFirst(T x) const {
    if constexpr (kCounts) {
      if (IsNan(x)) return {0, 0};
      return {DoubleOf(x), 1};
    } else if constexpr (kHasIntegerLanes<T>) {
      return Sum<T, false>{}.Lift(x, 0);
    } else {
      return DoubleOf(x);
    }
  }
  WARPFOLD_FN First FirstIdentity() const {
    if constexpr (kCounts) {
      return {-0.0, 0};
    } else if constexpr (kHasIntegerLanes<T>) {
      return 0;
    } else {
      return -0.0;
    }
  }
  WARPFOLD_FN First CombineFirst(First a, First b) const { return a + b; }
  // What the second sweep measures from. Without NaN to ignore, `present` is a constant in whole leaves.
  WARPFOLD_FN double Center(First first, std::uint32_t present) const {
    if constexpr (kCounts) {
      return first.sum / static_cast<double>(first.count);
    } else if constexpr (kHasIntegerLanes<T> && kIsSigned<T>) {
      return static_cast<double>(static_cast<std::make_signed_t<First>>(first)) /
             static_cast<double>(present);
    } else {
      return static_cast<double>(first) / static_cast<double>(present);
    }
  }
  WARPFOLD_FN Second LiftSecond(T x, double center) const {
    if (IsIgnored<T, kIgnoreNan>(x)) return 0;
    const double deviation = DoubleOf(x) - center;
    return deviation * deviation;
  }
  WARPFOLD_FN Second CombineSecond(Second a, Second b) const { return a + b; }
  WARPFOLD_FN LeafState Join(First first, double center, Second second, std::uint32_t present) const {
    if constexpr (kCounts) {
      if (first.count == 0) return Identity();
      return {center, second, first.count};
    } else {
      return {center, second, present};
    }
  }
};

// The variance of the elements that `m` counts, which leaves out ignored ones; NaN if too few are left.
WARPFOLD_FN double VarianceOf(const Moments& m, std::uint64_t ddof) {
  if (m.count <= ddof) return CanonicalNan(NAN);
  return CanonicalNan(m.deviations / static_cast<double>(m.count - ddof));
}

}  // namespace warpfold::kernels
