// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// exp(x) for x <= 0, using only additions and multiplications, so that host and device give the same bits.
// Within 2 units in the last place.
//
// The method is that of fdlibm's e_exp.c (Sun Microsystems, 1993): x = k ln 2 + r with |r| <= ln 2 / 2, with
// ln 2 in two parts so that k times the upper one is exact; but here exp(r) is its Taylor polynomial of
// degree 13, whose error on that interval is below 2^-57.
#pragma once

#include <cstdint>

#include "kernels/operators/portable.h"

namespace warpfold::kernels {

WARPFOLD_FN double ExpOfNegative(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits: times k it is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kToInteger = 0x1.8p+52;  // adding it rounds to an integer
  if (!(x > -745.2)) return x != x ? x : 0.0;
  const double k = (x * kLog2E + kToInteger) - kToInteger;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  constexpr double kInverseFactorials[] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       0.5,          1.0,         1.0};
  double sum = kInverseFactorials[0];
  WARPFOLD_UNROLL
  for (int i = 1; i < 14; ++i) sum = sum * r + kInverseFactorials[i];
  // In two steps, because the second may round to a subnormal.
  const auto exponent = static_cast<std::int64_t>(k);
  const std::int64_t normal = exponent < -1000 ? exponent + 500 : exponent;
  const auto power = [](std::int64_t e) {
    return BitCast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
  };
  return sum * power(normal) * power(exponent - normal);
}

}  // namespace warpfold::kernels
