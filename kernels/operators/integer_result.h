// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// From exact integer states to results. Host only.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// The two's complement value `s` of a sum over elements of type T, if it fits int64 or uint64.
template <IntegerElement T>
Outcome IntegerResult(Uint128 s) {
  const auto narrow = static_cast<Wide<T>>(s);
  const auto widened = static_cast<Uint128>(static_cast<Int128>(narrow));
  if (widened != s) return {.error = Outcome::Error::kOverflow};
  return {.value = Scalar::Of(narrow)};
}

// numerator / denominator, correctly rounded. denominator > 0.
inline double RoundedQuotient(Uint128 magnitude, std::uint64_t denominator) {
  if (magnitude == 0) return 0.0;
  const auto bits = [](Uint128 x) {
    const auto high = static_cast<std::uint64_t>(x >> 64);
    return high != 0 ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll(static_cast<std::uint64_t>(x));
  };
  // Shift until the integer quotient has 56 bits or more: 53, two to round by, and a sticky one.
  const int wanted = 56 + bits(denominator) - bits(magnitude);
  const int shift = wanted > 0 ? wanted : 0;
  const Uint128 scaled = magnitude << shift;
  const Uint128 quotient = scaled / denominator;
  const bool inexact = quotient * denominator != scaled;
  return std::ldexp(static_cast<double>(quotient | Uint128{inexact}), -shift);
}

}  // namespace warpfold::kernels
