// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Count, mean and sum of squared deviations of floats, merged pairwise: T. F. Chan, G. H. Golub, R. J.
// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979), in a form that
// is symmetric to the last bit. A lane sweeps its elements twice: first for their mean, then for their
// deviations from it.
//
// A mean that is large compared with the deviations must not lose them. So the second sweep also adds the
// deviations themselves, which corrects the rounded mean, and a mean is kept as the sum of two doubles (a
// double-double). A merge finds the difference of two such means correctly in all its digits.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/geometry.h"
#include "kernels/operators/float_bounds.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels {

struct Moments {
  double mean;
  double mean_low;    // the rest of the mean beyond `mean`: what rounding has taken from it
  double deviations;  // sum of squares of x - mean
  std::uint64_t count;
};

// Returns what rounding has taken from a + b, given the rounded sum. The result is exact (a two-sum): D. E.
// Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B. Real is double, or a vector of doubles.
template <class Real>
WARPFOLD_FN Real RoundedOff(Real a, Real b, Real sum) {
  const Real b_part = sum - a;
  return (a - (sum - b_part)) + (b - b_part);
}

// Moments without their count, of one state or of a vector of them.
template <class Real>
struct MomentParts {
  Real mean;
  Real mean_low;
  Real deviations;
};

// Merges two states of `count` elements each. This needs no division.
template <class Real>
WARPFOLD_FN MomentParts<Real> MergeEqualParts(const MomentParts<Real>& a, const MomentParts<Real>& b,
                                              std::uint64_t count) {
  const Real step = (b.mean - a.mean) + (b.mean_low - a.mean_low);
  const double half = 0.5 * static_cast<double>(count);
  const Real a_half = 0.5 * a.mean;
  const Real b_half = 0.5 * b.mean;
  const Real mean = a_half + b_half;
  const Real low = RoundedOff(a_half, b_half, mean) + 0.5 * (a.mean_low + b.mean_low);
  return {mean, low, (a.deviations + b.deviations) + (step * step) * half};
}

// Merges two states that count equally many elements, as those of whole leaves do. Both may be empty.
WARPFOLD_FN Moments MergeEqualMoments(const Moments& a, const Moments& b) {
  const MomentParts<double> merged = MergeEqualParts<double>({a.mean, a.mean_low, a.deviations},
                                                             {b.mean, b.mean_low, b.deviations}, a.count);
  return {merged.mean, merged.mean_low, merged.deviations, 2 * a.count};
}

WARPFOLD_FN Moments MergeMoments(const Moments& a, const Moments& b) {
  if (a.count == b.count) return MergeEqualMoments(a, b);
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  // It starts from the mean of more elements, so that equal means stay as they are: a constant array does not
  // vary.
  const Moments& more = a.count > b.count ? a : b;
  const Moments& less = a.count > b.count ? b : a;
  const std::uint64_t count = a.count + b.count;
  const double step = (less.mean - more.mean) + (less.mean_low - more.mean_low);
  const double share = static_cast<double>(less.count) / static_cast<double>(count);
  const double move = step * share;
  const double mean = more.mean + move;
  return {mean, RoundedOff(more.mean, move, mean) + more.mean_low,
          (a.deviations + b.deviations) + (step * step) * (static_cast<double>(more.count) * share), count};
}

// The moments of `count` > 0 elements, given sums of their deviations from `center`, and of the squares of
// these. The center is near the mean, so that little cancels, except for elements that differ by a few units
// in the last place, which the center may miss by several such units. Their deviations are small multiples of
// such a unit, and so are all terms of count * squares - deviations^2: the difference is exact, and only its
// division by count is rounded. A power of two keeps these terms in the range of doubles.
template <class Real>
WARPFOLD_FN MomentParts<Real> PartsAround(Real center, Real deviations, Real squares, double count) {
  constexpr double kScale = 1.0 / 64;
  static_assert(kLeafBytes / kLanes / sizeof(std::uint16_t) <= 64, "a lane may count more elements");
  const double share = count * kScale;
  const Real step = deviations / count;
  const Real mean = center + step;
  const Real excess = deviations * (deviations * kScale);
  const Real total = squares * share;
  const Real rest = (total - excess) / share;
  // A rest that is not above 0 comes from rounding, and counts as 0; or else the squares are not finite, and
  // are kept.
  const Real none = excess < std::numeric_limits<double>::infinity() ? Real{} : squares;
  return {mean, RoundedOff(center, step, mean), excess < total ? rest : none};
}

WARPFOLD_FN Moments MomentsAround(double center, double deviations, double squares, std::uint32_t count) {
  const MomentParts<double> parts = PartsAround(center, deviations, squares, static_cast<double>(count));
  return {parts.mean, parts.mean_low, parts.deviations, count};
}

inline Moments CanonicalMoments(const Moments& m) {
  return {CanonicalNan(m.mean), CanonicalNan(m.mean_low), CanonicalNan(m.deviations), m.count};
}

// What a lane learns in its first sweep if some elements are ignored. Otherwise the sum is enough.
struct CountedSum {
  double sum;
  std::uint32_t count;
};

WARPFOLD_FN CountedSum operator+(CountedSum a, CountedSum b) { return {a.sum + b.sum, a.count + b.count}; }

// A lane adds up the deviations from its center in its second sweep.
struct Deviations {
  double sum;
  double squares;
};

WARPFOLD_FN Deviations operator+(Deviations a, Deviations b) {
  return {a.sum + b.sum, a.squares + b.squares};
}

template <AnyElement T, bool kIgnoreNan>
WARPFOLD_FN bool IsIgnored(T x) {
  if constexpr (kIgnoreNan && FloatElement<T>) {
    return IsNan(x);
  } else {
    return false;
  }
}

// variance and stddev of floats, except for their results.
template <FloatElement T, bool kIgnoreNan>
struct MomentsOperator {
  using Element = T;
  using LeafState = Moments;
  using State = Moments;
  using First = std::conditional_t<kIgnoreNan, CountedSum, double>;
  using Second = Deviations;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kScalarsOnly = true;
  static constexpr bool kApproximate = true;
  static constexpr bool kCombinesEqual = !kIgnoreNan;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    if (IsIgnored<T, kIgnoreNan>(x)) return Identity();
    const auto value = DoubleOf(x);
    return {value, value - value, value - value, 1};  // NaN for infinities, as in the sweeps
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const { return MergeMoments(a, b); }
  WARPFOLD_FN State CombineEqual(const State& a, const State& b) const { return MergeEqualMoments(a, b); }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const { return {0, 0, 0, 0}; }
  State Canonical(const State& s) const { return CanonicalMoments(s); }

  WARPFOLD_FN First LiftFirst(T x) const {
    if constexpr (kIgnoreNan) {
      if (IsNan(x)) return {0, 0};
      return {DoubleOf(x), 1};
    } else {
      return DoubleOf(x);
    }
  }
  WARPFOLD_FN First FirstIdentity() const {
    if constexpr (kIgnoreNan) {
      return {-0.0, 0};
    } else {
      return -0.0;
    }
  }
  WARPFOLD_FN First CombineFirst(First a, First b) const { return a + b; }
  // The point from which the second sweep measures. Without NaN to ignore, `present` is a constant in whole
  // leaves.
  WARPFOLD_FN double Center(First first, std::uint32_t present) const {
    if constexpr (kIgnoreNan) {
      return first.sum / static_cast<double>(first.count);
    } else {
      return first / static_cast<double>(present);
    }
  }
  WARPFOLD_FN Second LiftSecond(T x, double center) const {
    if (IsIgnored<T, kIgnoreNan>(x)) return {0, 0};
    const double deviation = DoubleOf(x) - center;
    return {deviation, deviation * deviation};
  }
  WARPFOLD_FN Second CombineSecond(Second a, Second b) const { return a + b; }
  WARPFOLD_FN LeafState Join(First first, double center, Second second, std::uint32_t present) const {
    if constexpr (kIgnoreNan) {
      if (first.count == 0) return Identity();
      return MomentsAround(center, second.sum, second.squares, first.count);
    } else {
      return MomentsAround(center, second.sum, second.squares, present);
    }
  }

  bool IsPossible(const State& s, std::uint64_t, std::uint64_t count) const {
    if (kIgnoreNan ? s.count > count : s.count != count) return false;
    if (IsBelowZero(s.deviations)) return false;
    if (s.count == 0) return s.mean == 0 && s.mean_low == 0 && s.deviations == 0;
    if (s.count == 1 && s.deviations > 0) return false;
    const bool is_finite = std::isfinite(s.mean) && std::isfinite(s.mean_low) && std::isfinite(s.deviations);
    // Infinite and NaN elements make the mean NaN, and so do sums beyond float64. The squares alone may
    // overflow, too.
    const bool has_nan = s.mean != s.mean && s.deviations != s.deviations;
    if (!is_finite) return has_nan || (std::same_as<T, double> && !std::isfinite(s.deviations));
    const double largest = kLargestFloat<T> * (1 + 0x1p-40);  // rounding may raise a mean
    // Each of up to 64 merges leaves a rounding error of one last place in the lower part.
    return std::fabs(s.mean) <= largest && std::fabs(s.mean_low) <= largest * 0x1p-46 &&
           s.deviations <= static_cast<double>(s.count) * largest * largest;
  }

  // The variance of the elements that the state counts, without ignored ones; NaN if `ddof` leaves nothing to
  // divide by.
  static WARPFOLD_FN double VarianceOf(const State& s, std::uint64_t, double ddof) {
    const double divisor = static_cast<double>(s.count) - ddof;
    if (!(divisor > 0)) return CanonicalNan(NAN);
    return CanonicalNan(s.deviations / divisor);
  }
};

}  // namespace warpfold::kernels
