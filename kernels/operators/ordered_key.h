// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Keys: integers that order as the elements do, so that min and max of any type are one integer
// comparison. A float's bits, read as a sign and a magnitude, order as IEEE 754-2019 totalOrder does;
// flipping the magnitude of negative ones gives two's complement.
#pragma once

#include <cmath>

#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"

namespace warpfold::kernels {

template <AnyElement T>
using Key = std::conditional_t<FloatElement<T>, std::make_signed_t<Bits<T>>, Value<T>>;

template <AnyElement T>
inline constexpr Key<T> kLargestKey = static_cast<Key<T>>(static_cast<Bits<T>>(~Bits<T>{0}) >>
                                                          (std::is_signed_v<Key<T>> ? 1 : 0));
template <AnyElement T>
inline constexpr Key<T> kSmallestKey = static_cast<Key<T>>(~static_cast<Bits<T>>(kLargestKey<T>));

// The largest magnitude of an integer, which is its own key.
template <IntegerElement T>
inline constexpr std::uint64_t kLargestMagnitude =
    std::same_as<T, Boolean> ? 1 : static_cast<std::uint64_t>(kLargestKey<T>) + kIsSigned<T>;

// The largest finite float.
template <FloatElement T>
inline constexpr double kLargestFloat = std::same_as<T, double>    ? 0x1.fffffffffffffp1023
                                        : std::same_as<T, Float16> ? 65504.0
                                        : std::same_as<T, float>   ? 0x1.fffffep127
                                                                   : 0x1.fep127;

// True for -0.0, too, which no sum of magnitudes is. False for NaN, whatever its sign.
inline bool IsBelowZero(double x) { return x <= 0 && std::signbit(x); }

// Whether this can be a sum in float64 of `count` elements, or of their magnitudes to the power kPower. It is
// if an infinity or a NaN may have been among them, or if it is small enough; rounding may lift it a little.
template <FloatElement T, int kPower = 1>
bool IsSumOfFloats(double sum, std::uint64_t count) {
  if (std::same_as<T, double> || !std::isfinite(sum)) return true;
  const double largest = kPower == 1 ? kLargestFloat<T> : kLargestFloat<T> * kLargestFloat<T>;
  if (std::fabs(sum) > static_cast<double>(count) * largest * (1 + 0x1p-40)) return false;
  const double units = std::ldexp(sum, -kPower * kUnitExponent<T>);
  return std::trunc(units) == units;
}

template <FloatElement T>
WARPFOLD_FN Key<T> FlipMagnitude(Key<T> key) {
  const auto sign = static_cast<Bits<T>>(key >> (sizeof(T) * 8 - 1));
  return static_cast<Key<T>>(key ^ static_cast<Key<T>>(sign >> 1));
}

// The key of an element; `nan` is the key of every NaN.
template <AnyElement T>
WARPFOLD_FN Key<T> KeyOf(T x, Key<T> nan) {
  if constexpr (FloatElement<T>) {
    // A mask, which is ones for NaN, replaces a choice, for which compilers would branch.
    const auto is_nan = static_cast<Key<T>>(-static_cast<Key<T>>(IsNan(x)));
    const Key<T> key = FlipMagnitude<T>(BitCast<Key<T>>(x));
    return static_cast<Key<T>>((key & ~is_nan) | (nan & is_nan));
  } else {
    return ValueOf(x);
  }
}

// Whether some element has this key, where `nan` is the key of every NaN.
template <AnyElement T>
bool IsKey(Key<T> key, Key<T> nan) {
  if constexpr (FloatElement<T>) {
    return KeyOf<T>(BitCast<T>(FlipMagnitude<T>(key)), nan) == key;
  } else {
    return KeyOf<T>(BitCast<T>(key), nan) == key;
  }
}

// The element of a key, as a result. The smallest and the largest key of a float are NaN.
template <AnyElement T>
WARPFOLD_FN Natural<T> ElementOf(Key<T> key) {
  if constexpr (FloatElement<T>) {
    return CanonicalNan(static_cast<double>(ValueOf(BitCast<T>(FlipMagnitude<T>(key)))));
  } else {
    return static_cast<Natural<T>>(key);
  }
}

}  // namespace warpfold::kernels
