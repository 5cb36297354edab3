// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Count, smallest, largest, sum, mean and variance in one pass: each as the operator of that name defines it,
// and the count without ignored NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/operators/mean.h"
#include "kernels/operators/minmax.h"
#include "kernels/operators/sum.h"
#include "kernels/operators/variance.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Describe;

// What describe has in common for integers and floats.
template <AnyElement T, bool kIgnoreNan>
struct DescribeBase {
  using Sums = Sum<T, kIgnoreNan>;
  using Extremes = Minmax<T, kIgnoreNan>;
  using Variances = VarianceStates<T, kIgnoreNan>;
  using WideKey = std::conditional_t<std::is_signed_v<Key<T>>, std::int64_t, std::uint64_t>;
  using Element = T;
  static constexpr const char* kName = "describe";
  static constexpr const char* kFields[] = {"count", "min", "max", "sum", "mean", "variance"};
  static constexpr std::uint32_t kWrappedField = 3;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kScalarsOnly = true;

  bool wrap = false;
  double ddof = 0;
  DescribeBase() = default;
  WARPFOLD_FN explicit DescribeBase(const OperatorParameters& parameters)
      : wrap(parameters.wrap_overflow), ddof(parameters.ddof) {}

 protected:
  template <class State>
  static WARPFOLD_FN typename Extremes::State RangeOf(const State& s) {
    return {static_cast<Key<T>>(s.min), static_cast<Key<T>>(s.max)};
  }
  // Whether the state's keys are those of elements.
  template <class State>
  static bool HasPossibleRange(const State& s, std::uint64_t first, std::uint64_t count) {
    const auto range = RangeOf(s);
    return s.min == static_cast<WideKey>(range.min) && s.max == static_cast<WideKey>(range.max) &&
           Extremes{}.IsPossible(range, first, count);
  }
};

// Describes integers. All of its parts are exact, and the variance is computed from the same sum that is
// shown.
template <IntegerElement T>
struct Describe<T, false> : DescribeBase<T, false> {
  using Base = DescribeBase<T, false>;
  using typename Base::Extremes;
  using typename Base::Variances;
  struct LeafState {
    typename Variances::LeafState powers;
    typename Extremes::State range;
  };
  struct State {
    typename Variances::State powers;
    typename Base::WideKey min;
    typename Base::WideKey max;
  };
  static constexpr bool kAnyOrder = true;

  using Base::Base;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t offset) const {
    return {Variances{}.Lift(x, offset), Extremes{}.Lift(x, offset)};
  }
  WARPFOLD_FN LeafState Combine(const LeafState& a, const LeafState& b) const {
    return {Variances{}.Combine(a.powers, b.powers), Extremes{}.Combine(a.range, b.range)};
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const {
    const auto range = Extremes{}.Combine(Base::RangeOf(a), Base::RangeOf(b));
    return {Variances{}.Combine(a.powers, b.powers), range.min, range.max};
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t first) const {
    return {Variances{}.Widen(leaf.powers, first), leaf.range.min, leaf.range.max};
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return {Variances{}.LeafIdentity(), Extremes{}.Identity()}; }
  WARPFOLD_FN State Identity() const {
    return {Variances{}.Identity(), Extremes{}.Identity().min, Extremes{}.Identity().max};
  }

  bool IsPossible(const State& s, std::uint64_t first, std::uint64_t count) const {
    if (!Variances{}.IsPossible(s.powers, first, count) || !Base::HasPossibleRange(s, first, count)) {
      return false;
    }
    // Integers are their own keys, and the products are within 128 bits as in Sum.
    const auto sum = static_cast<Int128>(FromWords(s.powers.sum));
    return sum >= Int128{s.min} * count && sum <= Int128{s.max} * count &&
           Variances::FitBetween(s.powers, count, s.min, s.max) && HasExtremes(s, count);
  }

  WARPFOLD_FN Outcome FinishField(const State& s, std::uint64_t count, std::uint32_t field) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    const Uint128 sum = FromWords(s.powers.sum);
    switch (field) {
      case 0:
        return {.value = Scalar::Of(count)};
      case 1:
      case 2:
        return Extremes{}.FinishField(Base::RangeOf(s), count, field - 1);
      case 3: {
        typename Base::Sums sums;
        sums.wrap = this->wrap;
        return sums.Finish(sum, count);
      }
      case 4:
        return Mean<T, false>{}.Finish(sum, count);
      default:
        return {.value = Scalar::Of(Variances::VarianceOf(s.powers, count, this->ddof))};
    }
  }

 private:
  // Whether the extremes can be two of the elements, or the only one: the other elements must lie between
  // them and account for the rest of the sum and of the squares.
  static bool HasExtremes(const State& s, std::uint64_t count) {
    if (count == 1) return s.min == s.max;
    const auto element = [](typename Base::WideKey key) {
      return Variances{}.Widen(Variances{}.Lift(BitCast<T>(static_cast<Bits<T>>(key)), 0), 0);
    };
    const auto rest = Variances::Without(s.powers, Variances{}.Combine(element(s.min), element(s.max)));
    if (!rest.has_value()) return false;
    const auto sum = static_cast<Int128>(FromWords(rest->sum));
    const std::uint64_t others = count - 2;
    if (sum < Int128{s.min} * others || sum > Int128{s.max} * others) return false;
    if (others > 0) {
      return Variances{}.IsPossible(*rest, 0, others) && Variances::FitBetween(*rest, others, s.min, s.max);
    }
    return std::all_of(std::begin(rest->squares.words), std::end(rest->squares.words),
                       [](std::uint64_t word) { return word == 0; });
  }
};

template <FloatElement T, bool kIgnoreNan>
struct Describe<T, kIgnoreNan> : DescribeBase<T, kIgnoreNan> {
  using Base = DescribeBase<T, kIgnoreNan>;
  using typename Base::Extremes;
  using typename Base::Sums;
  using typename Base::Variances;
  struct LeafState {
    double sum;
    Moments moments;
    typename Extremes::State range;
  };
  struct State {
    double sum;
    Moments moments;
    std::int64_t min;
    std::int64_t max;
  };
  struct First {
    double sum;
    typename Variances::First lane;
    typename Extremes::State range;
  };
  using Second = typename Variances::Second;
  static constexpr bool kApproximate = true;
  static constexpr bool kCombinesEqual = !kIgnoreNan;

  using Base::Base;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t offset) const {
    return {Sums{}.Lift(x, offset), Variances{}.Lift(x, offset), Extremes{}.Lift(x, offset)};
  }
  WARPFOLD_FN LeafState Combine(const LeafState& a, const LeafState& b) const {
    return {a.sum + b.sum, MergeMoments(a.moments, b.moments), Extremes{}.Combine(a.range, b.range)};
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const {
    const auto range = Extremes{}.Combine(Base::RangeOf(a), Base::RangeOf(b));
    return {a.sum + b.sum, MergeMoments(a.moments, b.moments), range.min, range.max};
  }
  WARPFOLD_FN LeafState CombineEqual(const LeafState& a, const LeafState& b) const {
    return {a.sum + b.sum, MergeEqualMoments(a.moments, b.moments), Extremes{}.Combine(a.range, b.range)};
  }
  WARPFOLD_FN State CombineEqual(const State& a, const State& b) const {
    const auto range = Extremes{}.Combine(Base::RangeOf(a), Base::RangeOf(b));
    return {a.sum + b.sum, MergeEqualMoments(a.moments, b.moments), range.min, range.max};
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const {
    return {leaf.sum, leaf.moments, leaf.range.min, leaf.range.max};
  }
  WARPFOLD_FN LeafState LeafIdentity() const {
    return {Sums{}.LeafIdentity(), Variances{}.Identity(), Extremes{}.Identity()};
  }
  WARPFOLD_FN State Identity() const { return Widen(LeafIdentity(), 0); }
  State Canonical(const State& s) const {
    return {CanonicalNan(s.sum), CanonicalMoments(s.moments), s.min, s.max};
  }

  WARPFOLD_FN First LiftFirst(T x) const {
    return {Sums{}.Lift(x, 0), Variances{}.LiftFirst(x), Extremes{}.Lift(x, 0)};
  }
  WARPFOLD_FN First FirstIdentity() const {
    return {Sums{}.LeafIdentity(), Variances{}.FirstIdentity(), Extremes{}.Identity()};
  }
  WARPFOLD_FN First CombineFirst(const First& a, const First& b) const {
    return {a.sum + b.sum, a.lane + b.lane, Extremes{}.Combine(a.range, b.range)};
  }
  WARPFOLD_FN double Center(const First& first, std::uint32_t present) const {
    return Variances{}.Center(first.lane, present);
  }
  WARPFOLD_FN Second LiftSecond(T x, double center) const { return Variances{}.LiftSecond(x, center); }
  WARPFOLD_FN Second CombineSecond(Second a, Second b) const { return a + b; }
  WARPFOLD_FN LeafState Join(const First& first, double center, Second second, std::uint32_t present) const {
    return {first.sum, Variances{}.Join(first.lane, center, second, present), first.range};
  }

  bool IsPossible(const State& s, std::uint64_t first, std::uint64_t count) const {
    if (!Variances{}.IsPossible(s.moments, first, count) || !Sums{}.IsPossible(s.sum, first, count)) {
      return false;
    }
    const std::uint64_t present = s.moments.count;
    const bool has_extremes = s.min != Identity().min;
    // Then all elements are ignored NaN, which sum to 0.0.
    if (present == 0) return !has_extremes && s.max == Identity().max && s.sum == 0 && !std::signbit(s.sum);
    return has_extremes && Base::HasPossibleRange(s, first, present) && GoTogether(s);
  }

  WARPFOLD_FN Outcome FinishField(const State& s, std::uint64_t count, std::uint32_t field) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    switch (field) {
      case 0:
        return {.value = Scalar::Of(s.moments.count)};
      case 1:
      case 2:
        return Extremes{}.FinishField(Base::RangeOf(s), count, field - 1);
      case 3:
        return Sums{}.Finish(s.sum, count);
      case 4:
        return MeanOf(s);
      default:
        return {.value = Scalar::Of(Variances::VarianceOf(s.moments, count, this->ddof))};
    }
  }

 private:
  // Whether sum and mean can be those of elements between these extremes. Rounding may raise them a little,
  // by less than 2^-45 of the largest magnitude for each element.
  static bool GoTogether(const State& s) {
    const auto range = Base::RangeOf(s);
    const double least = ElementOf<T>(range.min);
    const double greatest = ElementOf<T>(range.max);
    if (least != least) return s.sum != s.sum && s.moments.mean != s.moments.mean;
    const auto count = static_cast<double>(s.moments.count);
    const double largest = std::max(std::fabs(least), std::fabs(greatest));
    const double slack = (largest + std::numeric_limits<double>::min()) * 0x1p-40;
    // With infinities, and if a sum overflows, it may be anything.
    if (!std::isfinite((largest + slack) * count)) return true;
    return s.sum >= (least - slack) * count && s.sum <= (greatest + slack) * count &&
           std::fabs(s.sum - s.moments.mean * count) <= slack * count;
  }

  static WARPFOLD_FN Outcome MeanOf(const State& s) {
    const std::uint64_t count = s.moments.count;
    if (count == 0) return {.value = Scalar::Of(CanonicalNan(NAN))};
    // The sum counts ignored NaN as 0.0, but they have no part in the mean: if the only others are -0.0 (key
    // -1), it is -0.0.
    const double sum = kIgnoreNan && s.max == -1 && s.sum == 0 ? -0.0 : s.sum;
    return Mean<T, false>{}.Finish(sum, count);
  }
};

}  // namespace warpfold::kernels
