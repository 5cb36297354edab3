// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Count, smallest, largest, sum, mean and variance in one pass: each as the operator of that name has it,
// and the count without NaN that are ignored.
#pragma once

#include "kernels/operators/mean.h"
#include "kernels/operators/minmax.h"
#include "kernels/operators/moments.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Describe;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Describe<T, kIgnoreNan> {
  using Sums = Sum<T, kIgnoreNan>;
  using Range = Minmax<T, kIgnoreNan>;
  using Deviations = MomentsOperator<T, kIgnoreNan>;
  using WideKey = std::conditional_t<std::is_signed_v<Key<T>>, std::int64_t, std::uint64_t>;
  struct LeafState {
    typename Sums::LeafState sum;
    Moments moments;
    typename Range::State range;
  };
  struct State {
    std::uint64_t sum[sizeof(typename Sums::State) / 8];  // the lowest word first
    Moments moments;
    WideKey min;
    WideKey max;
  };
  struct First {
    typename Sums::LeafState sum;
    typename Deviations::First lane;
    typename Range::State range;
  };
  using Element = T;
  using Second = double;
  static constexpr const char* kName = "describe";
  static constexpr const char* kFields[] = {"count", "min", "max", "sum", "mean", "variance"};
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kScalarsOnly = true;
  static constexpr bool kApproximate = true;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t offset) const {
    return {Sums{}.Lift(x, offset), Deviations{}.Lift(x, offset), Range{}.Lift(x, offset)};
  }
  WARPFOLD_FN LeafState Combine(const LeafState& a, const LeafState& b) const {
    return {Sums{}.Combine(a.sum, b.sum), MergeMoments(a.moments, b.moments),
            Range{}.Combine(a.range, b.range)};
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const {
    const auto range = Range{}.Combine(RangeOf(a), RangeOf(b));
    return Assemble(Sums{}.Combine(SumOf(a), SumOf(b)), MergeMoments(a.moments, b.moments), range);
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t first) const {
    return Assemble(Sums{}.Widen(leaf.sum, first), leaf.moments, leaf.range);
  }
  WARPFOLD_FN LeafState LeafIdentity() const {
    return {Sums{}.LeafIdentity(), Deviations{}.Identity(), Range{}.Identity()};
  }
  WARPFOLD_FN State Identity() const {
    return Assemble(Sums{}.Identity(), Deviations{}.Identity(), Range{}.Identity());
  }
  State Canonical(State s) const {
    s.moments = CanonicalMoments(s.moments);
    if constexpr (FloatElement<T>) return Assemble(CanonicalNan(SumOf(s)), s.moments, RangeOf(s));
    return s;
  }

  WARPFOLD_FN First LiftFirst(T x) const {
    return {Sums{}.Lift(x, 0), Deviations{}.LiftFirst(x), Range{}.Lift(x, 0)};
  }
  WARPFOLD_FN First FirstIdentity() const {
    return {Sums{}.LeafIdentity(), Deviations{}.FirstIdentity(), Range{}.Identity()};
  }
  WARPFOLD_FN First CombineFirst(const First& a, const First& b) const {
    return {Sums{}.Combine(a.sum, b.sum), a.lane + b.lane, Range{}.Combine(a.range, b.range)};
  }
  WARPFOLD_FN double Center(const First& first, std::uint32_t present) const {
    return Deviations{}.Center(first.lane, present);
  }
  WARPFOLD_FN Second LiftSecond(T x, double center) const { return Deviations{}.LiftSecond(x, center); }
  WARPFOLD_FN Second CombineSecond(Second a, Second b) const { return a + b; }
  WARPFOLD_FN LeafState Join(const First& first, double center, Second second, std::uint32_t present) const {
    return {first.sum, Deviations{}.Join(first.lane, center, second, present), first.range};
  }

  bool IsPossible(const State& s, std::uint64_t first, std::uint64_t count) const {
    const auto range = RangeOf(s);
    if constexpr (IntegerElement<T>) {
      if (!Sums{}.IsPossible(SumOf(s), first, count)) return false;
    }
    return Deviations::ArePossible(s.moments, count) && s.min == static_cast<WideKey>(range.min) &&
           s.max == static_cast<WideKey>(range.max) && Range{}.IsPossible(range, first, count);
  }

  bool wrap = false;
  std::uint64_t ddof = 0;
  Describe() = default;
  WARPFOLD_FN explicit Describe(const OperatorParameters& parameters)
      : wrap(parameters.wrap_overflow), ddof(parameters.ddof) {}

  WARPFOLD_FN Outcome FinishField(const State& s, std::uint64_t count, std::uint32_t field) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    switch (field) {
      case 0:
        return {.value = Scalar::Of(s.moments.count)};
      case 1:
      case 2:
        return Range{}.FinishField(RangeOf(s), count, field - 1);
      case 3: {
        Sums sums;
        if constexpr (IntegerElement<T>) sums.wrap = wrap;
        return sums.Finish(SumOf(s), count);
      }
      case 4:
        return Mean(s);
      default:
        return {.value = Scalar::Of(VarianceOf(s.moments, ddof))};
    }
  }

 private:
  using Total = typename Sums::State;

  static WARPFOLD_FN Outcome Mean(const State& s) {
    const std::uint64_t count = s.moments.count;
    if (count == 0) return {.value = Scalar::Of(CanonicalNan(NAN))};
    Total sum = SumOf(s);
    // The sum takes ignored NaN for 0.0, but they have no part in the mean: of -0.0 (key -1) alone it is
    // -0.0.
    if constexpr (kIgnoreNan) sum = s.max == -1 && sum == 0 ? -0.0 : sum;
    return kernels::Mean<T, false>{}.Finish(sum, count);
  }
  static WARPFOLD_FN State Assemble(Total sum, const Moments& moments, typename Range::State range) {
    State s{{}, moments, range.min, range.max};
    if constexpr (FloatElement<T>) {
      s.sum[0] = BitCast<std::uint64_t>(sum);
    } else {
      s.sum[0] = static_cast<std::uint64_t>(sum);
      s.sum[1] = static_cast<std::uint64_t>(sum >> 64);
    }
    return s;
  }
  static WARPFOLD_FN Total SumOf(const State& s) {
    if constexpr (FloatElement<T>) {
      return BitCast<double>(s.sum[0]);
    } else {
      return Uint128{s.sum[1]} << 64 | s.sum[0];
    }
  }
  static WARPFOLD_FN typename Range::State RangeOf(const State& s) {
    return {static_cast<Key<T>>(s.min), static_cast<Key<T>>(s.max)};
  }
};

}  // namespace warpfold::kernels
