// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The natural logarithm in double, using only additions, multiplications and divisions, so that every device
// gives the same bits. Within 1 unit in the last place.
//
// Source: K. C. Ng's __ieee754_log (FreeBSD msun, e_log.c): x is 2^k (1 + f); with s = f / (2 + f), log(1 +
// f) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)), where R is a polynomial for the series of 2 artanh(s).
#pragma once

#include <cstdint>

#include "kernels/operators/portable.h"

namespace warpfold::kernels {

// The natural logarithm of a normal, positive number; infinity and NaN are their own logarithms.
WARPFOLD_FN double Logarithm(double x) {
  constexpr double kLn2High = 0x1.62e42feep-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kSeries[] = {0x1.2f112df3e5244p-3, 0x1.39a09d078c69fp-3, 0x1.7466496cb03dep-3,
                                0x1.c71c51d8e78afp-3, 0x1.2492494229359p-2, 0x1.999999997fa04p-2,
                                0x1.5555555555593p-1};
  if (!(x - x == 0)) return x;
  const auto bits = BitCast<std::uint64_t>(x);
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  // 1 + f is taken from [sqrt(1/2), sqrt(2)): from about 1.4142 on, the exponent is one greater.
  const std::uint64_t above = ((bits & kFraction) + 0x95f6400000000) >> 52;
  const auto k = static_cast<double>(static_cast<std::int64_t>((bits >> 52) + above) - 1023);
  const double f = BitCast<double>((bits & kFraction) | (1023 - above) << 52) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double series = kSeries[0];
  WARPFOLD_UNROLL
  for (int i = 1; i < 7; ++i) series = series * z + kSeries[i];
  const double half = 0.5 * f * f;
  return k * kLn2High - ((half - (s * (half + z * series) + k * kLn2Low)) - f);
}

}  // namespace warpfold::kernels
