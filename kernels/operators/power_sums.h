// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of integers and the sum of their squares, both exact. They are all that the variance needs, because
// n times the sum of squared deviations from the mean of n numbers is n sum(x^2) - sum(x)^2. Over floats that
// difference would cancel; over integers no bit of it is lost, whatever the mean.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "kernels/operators/squares.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels {

// 128 bits as words, so that a state that contains them along with other members needs no padding.
struct WordPair {
  std::uint64_t words[2];  // the lower first
};

WARPFOLD_FN WordPair AsWords(Uint128 x) {
  return {{static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(x >> 64)}};
}
WARPFOLD_FN std::uint32_t AsWords(std::uint32_t x) { return x; }
WARPFOLD_FN std::uint64_t AsWords(std::uint64_t x) { return x; }
WARPFOLD_FN Uint192 AsWords(const Uint192& x) { return x; }

WARPFOLD_FN Uint128 FromWords(const WordPair& x) { return Uint128{x.words[1]} << 64 | x.words[0]; }
WARPFOLD_FN std::uint32_t FromWords(std::uint32_t x) { return x; }
WARPFOLD_FN std::uint64_t FromWords(std::uint64_t x) { return x; }
WARPFOLD_FN Uint192 FromWords(const Uint192& x) { return x; }
WARPFOLD_FN Uint192 Extended(const Uint192& x) { return x; }

template <class SumWords, class SquareWords>
struct PowerSums {
  SumWords sum;
  SquareWords squares;
};

// n sum(x^2) - sum(x)^2, at most 2^246: n is at most kMaxElements<T> (proto/leaf.h), and so 2^59 for 64 bits.
struct Spread {
  std::uint64_t words[4];  // the lowest first
  bool negative;           // less than 0, which no elements give

  static WARPFOLD_LARGE_FN Spread Of(Uint128 sum_magnitude, const Uint192& squares, std::uint64_t count) {
    Spread spread{};
    std::uint64_t carry = 0;
    for (int i = 0; i < 3; ++i) {
      const Uint128 product = Uint128{squares.words[i]} * count + carry;
      spread.words[i] = static_cast<std::uint64_t>(product);
      carry = static_cast<std::uint64_t>(product >> 64);
    }
    spread.words[3] = carry;

    const auto low = static_cast<std::uint64_t>(sum_magnitude);
    const auto high = static_cast<std::uint64_t>(sum_magnitude >> 64);
    const Uint128 low_square = Uint128{low} * low;
    const Uint128 mixed = Uint128{low} * high;  // counts twice
    const Uint128 high_square = Uint128{high} * high;
    const Uint128 second = (low_square >> 64) + 2 * Uint128{static_cast<std::uint64_t>(mixed)};
    const Uint128 third = (second >> 64) + 2 * (mixed >> 64) + static_cast<std::uint64_t>(high_square);
    spread.Subtract({static_cast<std::uint64_t>(low_square), static_cast<std::uint64_t>(second),
                     static_cast<std::uint64_t>(third),
                     static_cast<std::uint64_t>((third >> 64) + (high_square >> 64))});
    return spread;
  }

  // Returns the nearest double.
  WARPFOLD_FN double Rounded() const {
    if (words[3] == 0) return kernels::Rounded(Uint192{{words[0], words[1], words[2]}});
    // Rounding needs only the upper 128 bits, and whether any bit below them is set.
    const Uint128 high = Uint128{words[3]} << 64 | words[2];
    return std::ldexp(RoundedQuotient(high | Uint128{(words[1] | words[0]) != 0}, 1), 128);
  }

 private:
  struct Words {
    std::uint64_t words[4];
  };
  WARPFOLD_FN void Subtract(const Words& other) {
    std::uint64_t borrow = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t partial = words[i] - borrow;
      const bool below = words[i] < borrow;
      borrow = below || partial < other.words[i];
      words[i] = partial - other.words[i];
    }
    negative = borrow != 0;
  }
};

// variance and stddev of integers, except for their results.
template <IntegerElement T>
struct PowerSumsOperator {
  using Sums = Sum<T, false>;
  using SumsOfSquares = Squares<T, false>;
  using Element = T;
  using LeafState = PowerSums<decltype(AsWords(typename Sums::LeafState{})),
                              decltype(AsWords(typename SumsOfSquares::LeafState{}))>;
  using State = PowerSums<WordPair, decltype(AsWords(typename SumsOfSquares::State{}))>;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kScalarsOnly = true;
  static constexpr bool kAnyOrder = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    return {AsWords(Sums{}.Lift(x, 0)), AsWords(SumsOfSquares{}.Lift(x, 0))};
  }
  template <class S>
  WARPFOLD_FN S Combine(const S& a, const S& b) const {
    return {AsWords(FromWords(a.sum) + FromWords(b.sum)),
            AsWords(FromWords(a.squares) + FromWords(b.squares))};
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t first) const {
    return {AsWords(Sums{}.Widen(FromWords(leaf.sum), first)),
            AsWords(SumsOfSquares{}.Widen(FromWords(leaf.squares), first))};
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return LeafState{}; }
  WARPFOLD_FN State Identity() const { return State{}; }

  // Of all elements that have this sum, those vary least of which `remainder` are one greater than the
  // others. A number is even if its square is, and the same holds for sums.
  bool IsPossible(const State& s, std::uint64_t first, std::uint64_t count) const {
    if (!Sums{}.IsPossible(FromWords(s.sum), first, count) ||
        !SumsOfSquares{}.IsPossible(FromWords(s.squares), first, count)) {
      return false;
    }
    if ((s.sum.words[0] ^ s.squares.words[0]) % 2 != 0) return false;
    if (std::same_as<T, Boolean> && s.sum.words[0] != s.squares.words[0]) return false;
    Spread spread = SpreadOf(s, count);
    if (spread.negative) return false;
    const auto remainder = static_cast<std::uint64_t>(Magnitude(s) % count);
    const Uint128 least = Uint128{remainder} * (count - remainder);
    if (spread.words[3] == 0 && spread.words[2] == 0 &&
        (Uint128{spread.words[1]} << 64 | spread.words[0]) < least) {
      return false;
    }
    return FitBetween(s, count, kSmallestKey<T>, kLargestKey<T>);
  }

  // Whether elements from `least` to `greatest` can have these squares, given that they can have this sum.
  // The sum of (x - least) (greatest - x), which is (least + greatest) sum(x) - count least greatest -
  // sum(x^2) and within 2^190, is smallest if all elements except one are the least or the greatest: then it
  // is what that one adds, which lies `odd` above the least.
  static bool FitBetween(const State& s, std::uint64_t count, Int128 least, Int128 greatest) {
    const auto sum = static_cast<Int128>(FromWords(s.sum));
    const Uint192 squares = Extended(FromWords(s.squares));
    const auto width = static_cast<Uint128>(greatest - least);
    const Uint128 odd = width == 0 ? 0 : static_cast<Uint128>(sum - least * count) % width;
    const Uint192 inside = SignExtended(least + greatest) * SignExtended(sum) +
                           SignExtended(-least) * SignExtended(greatest) * SignExtended(count) +
                           SignExtended(-1) * (squares + Extended(odd * (width - odd)));
    return inside.words[2] >> 63 == 0;
  }

  // The sums of the elements of `all` without those of `part`, which is a subset of them. Nothing if the
  // squares of the part exceed those of all.
  static std::optional<State> Without(const State& all, const State& part) {
    const Uint192 squares = Extended(FromWords(all.squares));
    const Uint192 less = Extended(FromWords(part.squares));
    if (std::lexicographical_compare(std::rbegin(squares.words), std::rend(squares.words),
                                     std::rbegin(less.words), std::rend(less.words))) {
      return std::nullopt;
    }
    const Uint192 left = squares + SignExtended(-1) * less;
    State rest = {AsWords(FromWords(all.sum) - FromWords(part.sum)), {}};
    std::copy_n(left.words, std::size(rest.squares.words), rest.squares.words);
    return rest;
  }

  // NaN if `ddof` leaves nothing to divide by.
  static WARPFOLD_FN double VarianceOf(const State& s, std::uint64_t count, double ddof) {
    const double divisor = static_cast<double>(count) - ddof;
    if (!(divisor > 0)) return CanonicalNan(NAN);
    return SpreadOf(s, count).Rounded() / (static_cast<double>(count) * divisor);
  }

 private:
  static WARPFOLD_FN Uint128 Magnitude(const State& s) {
    const Uint128 sum = FromWords(s.sum);
    return kIsSigned<T> && static_cast<Int128>(sum) < 0 ? -sum : sum;
  }
  static WARPFOLD_FN Spread SpreadOf(const State& s, std::uint64_t count) {
    return Spread::Of(Magnitude(s), Extended(FromWords(s.squares)), count);
  }
};

}  // namespace warpfold::kernels
