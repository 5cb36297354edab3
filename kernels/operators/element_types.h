// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The list of element types. A new one needs a place in the list, its facts in proto/element_type.h, a value
// in the proto's enum, and a case in kernels/cuda/segments/element_reader.cuh. A float also needs
// kInfinityBits and kUnitExponent here, kLargestFloat (float_bounds.h), kExactSumWords (superaccumulator.h),
// kPrecision (exact_sum.h), and kTop and kFractionBits (cuda/exact/exact_leaves.cuh). A float of 16 bits also
// needs ToFloat (half.h), HalfAsDouble (half_as_double.h) and its instructions in cuda/leaf/extrema.cuh.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kernels/operators/half.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// One byte: 0 is false, anything else is true.
struct Boolean {
  std::uint8_t byte;
};

template <class... Ts>
struct TypeList {};

// In the order of the enum ElementType.
using ElementTypes =
    TypeList<std::int32_t, std::int64_t, std::uint32_t, std::uint64_t, float, double, std::int8_t,
             std::uint8_t, std::int16_t, std::uint16_t, Float16, Bfloat16, Boolean>;

template <class T>
concept HalfElement = std::same_as<T, Float16> || std::same_as<T, Bfloat16>;
template <class T>
concept FloatElement = std::same_as<T, float> || std::same_as<T, double> || HalfElement<T>;
// Booleans count as the integers 0 and 1.
template <class T>
concept IntegerElement = std::same_as<T, Boolean> ||
    (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>);
template <class T>
concept AnyElement = IntegerElement<T> || FloatElement<T>;
// Those over which matrices are multiplied.
template <class T>
concept RingElement = AnyElement<T> && sizeof(T) >= 4;

template <class T>
struct ValueOfType {
  using type = T;
};
template <HalfElement T>
struct ValueOfType<T> {
  using type = float;
};
template <>
struct ValueOfType<Boolean> {
  using type = std::uint8_t;
};
// The arithmetic type that holds an element's value.
template <AnyElement T>
using Value = typename ValueOfType<T>::type;

template <AnyElement T>
WARPFOLD_FN Value<T> ValueOf(T x) {
  if constexpr (HalfElement<T>) {
    return ToFloat(x);
  } else if constexpr (std::same_as<T, Boolean>) {
    return x.byte != 0;
  } else {
    return x;
  }
}

// The bits of infinity; those of every NaN, without its sign, are greater.
template <FloatElement T>
inline constexpr std::uint64_t kInfinityBits = std::same_as<T, double>    ? 0x7ff0000000000000u
                                               : std::same_as<T, Float16> ? 0x7c00u
                                               : std::same_as<T, float>   ? 0x7f800000u
                                                                          : 0x7f80u;

// Every number of T is a multiple of 2^kUnitExponent, which is the smallest one above 0.
template <FloatElement T>
inline constexpr int kUnitExponent = std::same_as<T, double>    ? -1074
                                     : std::same_as<T, Float16> ? -24
                                     : std::same_as<T, float>   ? -149
                                                                : -133;

template <FloatElement T>
WARPFOLD_FN bool IsNan(T x) {
  if constexpr (HalfElement<T>) {
    return (x.bits & 0x7fffu) > kInfinityBits<T>;
  } else {
    return x != x;
  }
}

// The nearest double.
template <AnyElement T>
WARPFOLD_FN double DoubleOf(T x) {
#if !defined(__CUDA_ARCH__)
  if constexpr (std::integral<T> && sizeof(T) == 8) {
    // Only product's estimates (product.h) come here. x86 without AVX-512 converts unsigned integers with a
    // branch, so this composes the bits of doubles with fixed exponents: the lower half of x as 2^52 + low,
    // the upper half as 2^84 + 2^32 high, with the sign bit flipped if there is one. Only the last addition
    // rounds.
    constexpr double kBias = 0x1p84 + 0x1p52 + (std::is_signed_v<T> ? 0x1p63 : 0.0);
    constexpr std::uint64_t kSign = std::is_signed_v<T> ? 0x80000000u : 0;
    const auto bits = static_cast<std::uint64_t>(x);
    const auto low = BitCast<double>((bits & 0xffffffffu) | 0x4330000000000000u);
    const auto high = BitCast<double>(((bits >> 32) ^ kSign) | 0x4530000000000000u);
    return (high - kBias) + low;
  }
#endif
  return static_cast<double>(ValueOf(x));
}

template <AnyElement T>
inline constexpr bool kIsSigned = std::is_signed_v<Value<T>>;

// int64_t for signed integers, uint64_t for unsigned ones, double for floats: the types of sums.
template <AnyElement T>
using Wide = std::conditional_t<FloatElement<T>, double,
                                std::conditional_t<kIsSigned<T>, std::int64_t, std::uint64_t>>;
// The same for an element as a result.
template <AnyElement T>
using Natural = std::conditional_t<std::same_as<T, Boolean>, bool, Wide<T>>;

template <int kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = std::uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = std::uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = std::uint64_t;
};
// The unsigned integer of the same width.
template <AnyElement T>
using Bits = typename UnsignedOf<sizeof(T)>::type;

template <FloatElement T>
inline constexpr auto kSignBit = static_cast<Bits<T>>(Bits<T>{1} << (8 * sizeof(T) - 1));
// The bits of 1.0: all bits of the exponent except the highest.
template <FloatElement T>
inline constexpr auto kOneBits = static_cast<Bits<T>>(kInfinityBits<T> >> 1 & kInfinityBits<T>);

template <IntegerElement T>
WARPFOLD_FN bool IsNegative(T x) {
  if constexpr (kIsSigned<T>) {
    return ValueOf(x) < 0;
  } else {
    return false;
  }
}
// This never overflows, not even for the smallest integer.
template <IntegerElement T>
WARPFOLD_FN Bits<T> MagnitudeOf(T x) {
  const auto bits = static_cast<Bits<T>>(ValueOf(x));
  return IsNegative(x) ? static_cast<Bits<T>>(Bits<T>{0} - bits) : bits;
}

}  // namespace warpfold::kernels
