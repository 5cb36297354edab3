// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of floats, rounded once: the double nearest to the exact value, ties to even, whatever the order.
// If Python's math.fsum returns a number, this returns the same; if it raises (a partial sum beyond float64,
// infinities of both signs), this returns what the exact sum rounds to, or NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "kernels/operators/float_bounds.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/superaccumulator.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct ExactSum;

template <FloatElement T, bool kIgnoreNan>
struct ExactSum<T, kIgnoreNan> {
  using Element = T;
  using State = ExactSumState<T>;
  using LeafState = State;
  using Accumulator = Superaccumulator<T>;
  static constexpr const char* kName = "exact_sum";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kScalarsOnly = true;  // a state of up to 280 bytes for each entry

  WARPFOLD_FN Value<T> Addend(T x) const {
    if constexpr (kIgnoreNan) return IsNan(x) ? Value<T>{0} : ValueOf(x);
    return ValueOf(x);
  }

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    Accumulator one;
    one.Add(double{Addend(x)});
    return one.Sum();
  }
  WARPFOLD_FN State Combine(const State& a, const State& b) const {
    State sum{{}, a.special | b.special};
    if (sum.special != 0) return sum;
    std::uint64_t carry = 0;
    for (int i = 0; i < kWords; ++i) {
      const std::uint64_t partial = a.words[i] + carry;
      carry = partial < carry;
      sum.words[i] = partial + b.words[i];
      carry += sum.words[i] < partial;
    }
    return sum;
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const { return {}; }

  bool IsPossible(const State& s, std::uint64_t, std::uint64_t count) const {
    if (s.special > kIsNan || (kIgnoreNan && s.special == kIsNan && count == 1)) return false;
    const State magnitude = Magnitude(s);
    if (s.special != 0) return BitLength(magnitude) == 0;
    const State most = LargestTimes(count);
    return !std::lexicographical_compare(std::rbegin(most.words), std::rend(most.words),
                                         std::rbegin(magnitude.words), std::rend(magnitude.words));
  }

  WARPFOLD_FN Outcome Finish(const State& s, std::uint64_t) const {
    if (s.special == kIsNan) {
      return {.value = Scalar::Of(CanonicalNan(std::numeric_limits<double>::quiet_NaN()))};
    }
    if (s.special != 0) {
      return {.value = Scalar::Of(s.special == kHasInfinity ? std::numeric_limits<double>::infinity()
                                                            : -std::numeric_limits<double>::infinity())};
    }
    const double magnitude = Rounded(Magnitude(s));
    return {.value = Scalar::Of(IsNegative(s) ? -magnitude : magnitude)};
  }

 private:
  static constexpr int kWords = kExactSumWords<T>;
  static constexpr int kPrecision = std::is_same_v<T, Float16>    ? 11
                                    : std::is_same_v<T, Bfloat16> ? 8
                                    : std::is_same_v<T, float>    ? 24
                                                                  : 53;

  // `count` times the largest element: an integer of kPrecision bits times `count`, and zeros below it.
  static State LargestTimes(std::uint64_t count) {
    int exponent = 0;
    const double fraction = std::frexp(kLargestFloat<T>, &exponent);
    const Uint128 product = Uint128{static_cast<std::uint64_t>(std::ldexp(fraction, kPrecision))} * count;
    const int zeros = exponent - kPrecision - kUnitExponent<T>;
    State most = {};
    for (int bit = 0; bit < 128; ++bit) {
      const auto one = static_cast<std::uint64_t>(product >> bit & 1);
      if (one != 0) most.words[(zeros + bit) / 64] |= one << ((zeros + bit) % 64);
    }
    return most;
  }

  static WARPFOLD_FN bool IsNegative(const State& s) { return s.words[kWords - 1] >> 63 != 0; }
  static WARPFOLD_FN State Magnitude(State s) {
    if (!IsNegative(s)) return s;
    std::uint64_t carry = 1;
    for (std::uint64_t& word : s.words) {
      word = ~word + carry;
      carry &= word == 0;
    }
    return s;
  }
  static WARPFOLD_FN int BitLength(const State& magnitude) {
    for (int i = kWords - 1; i >= 0; --i) {
      if (magnitude.words[i] != 0) return 64 * i + 64 - __builtin_clzll(magnitude.words[i]);
    }
    return 0;
  }

  // Ties to even.
  static WARPFOLD_LARGE_FN double Rounded(const State& magnitude) {
    const int bits = BitLength(magnitude);
    const int dropped = bits > 53 ? bits - 53 : 0;
    const auto bit = [&](int i) { return magnitude.words[i / 64] >> (i % 64) & 1; };
    std::uint64_t kept = 0;
    for (int i = bits - 1; i >= dropped; --i) kept = kept << 1 | bit(i);
    if (dropped > 0 && bit(dropped - 1) != 0) {
      bool above_half = false;
      for (int i = 0; i < dropped - 1 && !above_half; ++i) above_half = bit(i) != 0;
      kept += above_half ? 1 : kept & 1;
    }
    // Exact: sums are multiples of 2^-1074, so that none with fewer than 53 bits needs rounding.
    return std::ldexp(static_cast<double>(kept), dropped + kUnitExponent<T>);
  }
};

}  // namespace warpfold::kernels
