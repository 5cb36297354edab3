// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Exact sums of floats: a fixed-point number wide enough for every sum of elements of one type. It is kept as
// digits of 32 bits in words of 64, so that many addends fit before any carry must move.
//
// Sources: U. Kulisch, "Computer Arithmetic and Validity" (2008), for the long accumulator; R. M. Neal, "Fast
// exact summation using small and large superaccumulators" (2015), arXiv:1505.05571, for the digits.
#pragma once

#include <concepts>
#include <cstdint>

#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"

namespace warpfold::kernels {

// The 64-bit words of a sum of T in units of 2^kUnitExponent (element_types.h). They hold the largest element
// times the number of elements of the largest array (2^62 bytes), and a sign.
template <FloatElement T>
inline constexpr int kExactSumWords = std::same_as<T, double>    ? 34
                                      : std::same_as<T, Float16> ? 2
                                                                 : 6;

// A sum has the union of these bits over its elements that are not finite.
inline constexpr std::uint32_t kHasInfinity = 1;
inline constexpr std::uint32_t kHasNegativeInfinity = 2;
inline constexpr std::uint32_t kIsNan = kHasInfinity | kHasNegativeInfinity;  // what their sum is

WARPFOLD_FN bool IsFinite(double x) { return x - x == 0; }
// The bits for a number that is not finite.
WARPFOLD_FN std::uint32_t SpecialOf(double x) {
  return x != x ? kIsNan : x > 0 ? kHasInfinity : kHasNegativeInfinity;
}

// A number as three adjacent digits, the lowest first.
struct DigitTriple {
  int first;
  std::int64_t digits[3];
};

// magnitude x 2^exponent, a multiple of 2^kUnitExponent, magnitude < 2^63.
template <FloatElement T>
WARPFOLD_FN DigitTriple DigitsOf(std::uint64_t magnitude, bool negative, int exponent) {
  int shift = exponent - kUnitExponent<T>;
  if (shift < 0) {  // a multiple of the unit: only zeros are dropped
    magnitude = shift > -64 ? magnitude >> -shift : 0;
    shift = 0;
  }
  const int offset = shift % 32;
  const std::uint64_t low = magnitude << offset;
  const std::uint64_t high = magnitude >> 1 >> (63 - offset);
  DigitTriple triple{shift / 32,
                     {static_cast<std::int64_t>(low & 0xffffffffu), static_cast<std::int64_t>(low >> 32),
                      static_cast<std::int64_t>(high)}};
  for (std::int64_t& digit : triple.digits) digit = negative ? -digit : digit;
  return triple;
}

// The digits of a finite number.
template <FloatElement T>
WARPFOLD_FN DigitTriple DigitsOf(double x) {
  const auto bits = BitCast<std::uint64_t>(x);
  const auto biased = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const std::uint64_t magnitude = biased == 0 ? fraction : fraction | std::uint64_t{1} << 52;
  return DigitsOf<T>(magnitude, bits >> 63 != 0, (biased == 0 ? 1 : biased) - 1075);
}

// A sum, written in one way only: two's complement, the lowest word first, in units of 2^kUnitExponent; all
// zeros if an element is not a finite number.
template <FloatElement T>
struct ExactSumState {
  std::uint64_t words[kExactSumWords<T>];
  std::uint64_t special;  // bits as above
};

template <FloatElement T>
inline constexpr int kDigits = 2 * kExactSumWords<T>;

// Carries, from the lowest digit to the highest. A digit may have taken up 2^31 addends.
template <FloatElement T>
WARPFOLD_FN ExactSumState<T> Carried(const std::int64_t (&digits)[kDigits<T>], std::uint32_t special) {
  ExactSumState<T> sum{{}, special};
  if (special != 0) return sum;
  std::int64_t carry = 0;
  for (int i = 0; i < kExactSumWords<T>; ++i) {
    const std::int64_t low = digits[2 * i] + carry;
    const std::int64_t high = digits[2 * i + 1] + (low >> 32);
    sum.words[i] = static_cast<std::uint64_t>(high) << 32 | (static_cast<std::uint64_t>(low) & 0xffffffffu);
    carry = high >> 32;
  }
  return sum;
}

// Sums elements in any order. One thread at a time may use it.
template <FloatElement T>
class Superaccumulator {
 public:
  WARPFOLD_FN void Add(double x) {
    if (!IsFinite(x)) {
      special_ |= SpecialOf(x);
      return;
    }
    Add(DigitsOf<T>(x));
  }
  // count x 2^exponent.
  WARPFOLD_FN void Add(std::int64_t count, int exponent) {
    const auto bits = static_cast<std::uint64_t>(count);
    Add(DigitsOf<T>(count < 0 ? 0 - bits : bits, count < 0, exponent));
  }
  WARPFOLD_FN ExactSumState<T> Sum() const { return Carried<T>(digits_, special_); }

 private:
  WARPFOLD_FN void Add(const DigitTriple& triple) {
    for (int i = 0; i < 3; ++i) digits_[triple.first + i] += triple.digits[i];
  }

  std::int64_t digits_[kDigits<T>] = {};
  std::uint32_t special_ = 0;
};

}  // namespace warpfold::kernels
