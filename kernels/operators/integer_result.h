// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Converts exact integer states to results, with the same bits on host and device.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// A type that does not overflow in sums of a leaf of integers this wide, or of their magnitudes.
template <IntegerElement T>
using LeafSum = std::conditional_t<sizeof(T) == 8, Uint128,
                                   std::conditional_t<sizeof(T) == 4, std::uint64_t, std::uint32_t>>;

// The two's complement value `s` of a sum over elements of type T, if it fits int64 or uint64.
template <IntegerElement T>
WARPFOLD_FN Outcome IntegerResult(Uint128 s) {
  const auto narrow = static_cast<Wide<T>>(s);
  const auto widened = static_cast<Uint128>(static_cast<Int128>(narrow));
  if (widened != s) return {.error = Outcome::Error::kOverflow};
  return {.value = Scalar::Of(narrow)};
}

// How many bits the number has, without leading zeros.
WARPFOLD_FN int BitLength(Uint128 x) {
  const auto bits = [](std::uint64_t word) {
    int length = 0;
    for (int step = 32; step > 0; step /= 2) {
      const bool above = word >> step != 0;
      length += above ? step : 0;
      word = above ? word >> step : word;
    }
    return length + static_cast<int>(word);
  };
  const auto high = static_cast<std::uint64_t>(x >> 64);
  return high != 0 ? 64 + bits(high) : bits(static_cast<std::uint64_t>(x));
}

// The double nearest to x 2^-shift, ties to even; x has 56 bits or more if its lowest bit stands for others
// below it. The conversion goes through 64 bits, because devices do not convert longer integers.
WARPFOLD_FN double NearestDouble(Uint128 x, int shift) {
  const int length = BitLength(x);
  const int dropped = length > 64 ? length - 64 : 0;
  const Uint128 kept = x >> dropped;
  const bool inexact = kept << dropped != x;
  return std::ldexp(static_cast<double>(static_cast<std::uint64_t>(kept) | std::uint64_t{inexact}),
                    dropped - shift);
}

// magnitude / denominator, correctly rounded. denominator > 0.
WARPFOLD_FN double RoundedQuotient(Uint128 magnitude, std::uint64_t denominator) {
  if (magnitude == 0) return 0.0;
  // Shift until the integer quotient has 56 bits or more: 53, two to round by, and a sticky one.
  const int wanted = 56 + BitLength(denominator) - BitLength(magnitude);
  const int shift = wanted > 0 ? wanted : 0;
  const Uint128 scaled = magnitude << shift;
  const Uint128 quotient = scaled / denominator;
  const bool inexact = quotient * denominator != scaled;
  return NearestDouble(quotient | Uint128{inexact}, shift);
}

}  // namespace warpfold::kernels
