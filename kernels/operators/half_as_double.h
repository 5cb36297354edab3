// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a float of 16 bits is read as a double without a conversion, for loops that conversions would bound.
// Its bits are moved down from the top of the double's, and masked. There the exponent is too small by the
// difference of the biases, so that the double is the half divided by kUnit. What is 0 or subnormal is so
// there, too, and exact. An infinity or a NaN comes out as a number.
#pragma once

#include <concepts>
#include <cstdint>

#include "kernels/operators/element_types.h"

namespace warpfold::kernels {

template <HalfElement T>
struct HalfAsDouble {
  static constexpr bool kFloat16 = std::same_as<T, Float16>;
  // How far down from the top of a double's bits those of T go; a double has 11 bits of exponent.
  static constexpr int kShift = 11 - (kFloat16 ? 5 : 8);
  static constexpr std::uint64_t kMask =
      std::uint64_t{1} << 63 | std::uint64_t{0x7fff} << (64 - 16 - kShift);  // sign; exponent and fraction
  static constexpr double kUnit = kFloat16 ? 0x1p1008 : 0x1p896;             // by the exponents' biases
};

}  // namespace warpfold::kernels
