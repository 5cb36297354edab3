// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums of squares, exact for integers and in float64 for floats: what sum_of_squares, l2_norm and, for
// integers, variance and describe share.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "kernels/operators/float_bounds.h"
#include "kernels/operators/integer_result.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

// 192 bits. Sums of squares of 64-bit elements need 187 of them: each square is below 2^128, and there are at
// most kMaxElements (proto/leaf.h).
struct Uint192 {
  std::uint64_t words[3];  // the lowest first
};

WARPFOLD_FN Uint192 operator+(const Uint192& a, const Uint192& b) {
  const Uint128 low = Uint128{a.words[0]} + b.words[0];
  const Uint128 middle = Uint128{a.words[1]} + b.words[1] + static_cast<std::uint64_t>(low >> 64);
  const std::uint64_t high = a.words[2] + b.words[2] + static_cast<std::uint64_t>(middle >> 64);
  return {{static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(middle), high}};
}

// a b modulo 2^192, which is also the product of two's complements.
inline Uint192 operator*(const Uint192& a, const Uint192& b) {
  Uint192 product{};
  for (int i = 0; i < 3; ++i) {
    std::uint64_t carry = 0;
    for (int j = 0; i + j < 3; ++j) {
      const Uint128 sum = Uint128{a.words[i]} * b.words[j] + product.words[i + j] + carry;
      product.words[i + j] = static_cast<std::uint64_t>(sum);
      carry = static_cast<std::uint64_t>(sum >> 64);
    }
  }
  return product;
}

// The same number in 192 bits of two's complement.
inline Uint192 SignExtended(Int128 x) {
  return {{static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(x >> 64),
           x < 0 ? ~std::uint64_t{0} : std::uint64_t{0}}};
}

WARPFOLD_FN Uint192 Extended(Uint128 x) {
  return {{static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(x >> 64), 0}};
}

// The nearest double.
WARPFOLD_FN double Rounded(const Uint192& x) {
  const auto nearest = [](Uint128 high, std::uint64_t low, int exponent) {
    // The upper 128 bits of the number, with all bits below them condensed into one: more than rounding
    // needs.
    return std::ldexp(RoundedQuotient(high | Uint128{low != 0}, 1), exponent);
  };
  if (x.words[2] == 0) return nearest(Uint128{x.words[1]} << 64 | x.words[0], 0, 0);
  return nearest(Uint128{x.words[2]} << 64 | x.words[1], x.words[0], 64);
}

template <class T, bool kIgnoreNan>
struct Squares;

template <IntegerElement T>
struct Squares<T, false> {
  using Element = T;
  using LeafState = std::conditional_t<
      sizeof(T) == 8, Uint192,
      std::conditional_t<sizeof(T) == 4, Uint128,
                         std::conditional_t<sizeof(T) == 2, std::uint64_t, std::uint32_t>>>;
  using State = std::conditional_t<sizeof(T) == 8, Uint192, Uint128>;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    const Wide<T> value = ValueOf(x);
    auto magnitude = static_cast<std::uint64_t>(value);
    if constexpr (std::is_signed_v<Wide<T>>) {
      if (value < 0) magnitude = 0 - magnitude;
    }
    if constexpr (sizeof(T) == 8) {
      return Extended(Uint128{magnitude} * magnitude);
    } else {
      return static_cast<LeafState>(magnitude * magnitude);  // at most 64 bits
    }
  }
  template <class S>
  WARPFOLD_FN S Combine(const S& a, const S& b) const {
    return a + b;
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return LeafState{}; }
  WARPFOLD_FN State Identity() const { return State{}; }
  bool IsPossible(const State& s, std::uint64_t, std::uint64_t count) const {
    if constexpr (sizeof(T) == 8) {
      return IsAtMost(s, LargestTimes(count));
    } else {
      return s <= Uint128{kLargestMagnitude<T> * kLargestMagnitude<T>} * count;
    }
  }

 private:
  // `count` times the largest square. It fits: there are fewer than 2^64 elements.
  static Uint192 LargestTimes(std::uint64_t count) {
    const Uint128 square = Uint128{kLargestMagnitude<T>} * kLargestMagnitude<T>;
    const Uint128 low = Uint128{static_cast<std::uint64_t>(square)} * count;
    const Uint128 high = Uint128{static_cast<std::uint64_t>(square >> 64)} * count + (low >> 64);
    return {{static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high),
             static_cast<std::uint64_t>(high >> 64)}};
  }
  static bool IsAtMost(const Uint192& a, const Uint192& b) {
    return std::lexicographical_compare(std::rbegin(a.words), std::rend(a.words), std::rbegin(b.words),
                                        std::rend(b.words)) ||
           std::equal(std::begin(a.words), std::end(a.words), std::begin(b.words));
  }

 protected:
  static WARPFOLD_FN Uint192 Exact(const State& s) {
    if constexpr (sizeof(T) == 8) {
      return s;
    } else {
      return Extended(s);
    }
  }
};

template <FloatElement T, bool kIgnoreNan>
struct Squares<T, kIgnoreNan> {
  using Element = T;
  using LeafState = double;
  using State = double;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    const double value = ValueOf(x);
    if constexpr (kIgnoreNan) return IsNan(x) ? 0.0 : value * value;
    return value * value;
  }
  WARPFOLD_FN State Combine(State a, State b) const { return a + b; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return 0.0; }
  WARPFOLD_FN State Identity() const { return 0.0; }
  State Canonical(State s) const { return CanonicalNan(s); }
  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const {
    return !IsBelowZero(s) && !(kIgnoreNan && s != s) && IsSumOfFloats<T, 2>(s, count);
  }
};

}  // namespace warpfold::kernels
