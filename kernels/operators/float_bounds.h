// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Plausibility bounds for sums of floats. IsPossible uses them to check partial states received from clients,
// which may be forged.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "kernels/operators/element_types.h"

namespace warpfold::kernels {

// The largest finite float.
template <FloatElement T>
inline constexpr double kLargestFloat = std::same_as<T, double>    ? 0x1.fffffffffffffp1023
                                        : std::same_as<T, Float16> ? 65504.0
                                        : std::same_as<T, float>   ? 0x1.fffffep127
                                                                   : 0x1.fep127;

// Also true for -0.0, which no sum of magnitudes is. False for NaN, whatever its sign.
inline bool IsBelowZero(double x) { return x <= 0 && std::signbit(x); }

// Whether this can be a sum in float64 of `count` elements, or of their magnitudes to the power kPower. It
// can if an infinity or a NaN may have been among them, or if it is small enough; rounding may raise it a
// little.
template <FloatElement T, int kPower = 1>
bool IsSumOfFloats(double sum, std::uint64_t count) {
  if (std::same_as<T, double> || !std::isfinite(sum)) return true;
  const double largest = kPower == 1 ? kLargestFloat<T> : kLargestFloat<T> * kLargestFloat<T>;
  if (std::fabs(sum) > static_cast<double>(count) * largest * (1 + 0x1p-40)) return false;
  const double units = std::ldexp(sum, -kPower * kUnitExponent<T>);
  return std::trunc(units) == units;
}

}  // namespace warpfold::kernels
