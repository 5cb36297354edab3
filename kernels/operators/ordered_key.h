// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Keys: integers in the same order as the elements, so that min and max of any type are one integer
// comparison. A float's bits, read as a sign and a magnitude, have the order of IEEE 754-2019 totalOrder;
// flipping the magnitude of negative ones gives two's complement.
#pragma once

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

template <FloatElement T>
WARPFOLD_FN Key<T> FlipMagnitude(Key<T> key) {
  const auto sign = static_cast<Bits<T>>(key >> (sizeof(T) * 8 - 1));
  return static_cast<Key<T>>(key ^ static_cast<Key<T>>(sign >> 1));
}

// The key of an element; `nan` is the key of every NaN.
template <AnyElement T>
WARPFOLD_FN Key<T> KeyOf(T x, Key<T> nan) {
  if constexpr (FloatElement<T>) {
    // A mask, which is all ones for NaN, replaces a conditional, for which compilers would branch.
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
