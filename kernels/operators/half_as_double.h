// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a float of 16 bits is read as a double without a conversion, for loops whose speed conversions would
// limit. Its bits are placed at the top of a double, shifted down and masked. There the exponent is too small
// by the difference of the biases, so that the double is the half divided by kUnit. Zeros and subnormals are
// zeros and subnormals there, too, and exact. An infinity or a NaN becomes a finite number.
#pragma once

#include <concepts>
#include <cstdint>

#include "kernels/operators/element_types.h"

namespace warpfold::kernels {

template <HalfElement T>
struct HalfAsDouble {
  static constexpr bool kFloat16 = std::same_as<T, Float16>;
  // How far the bits of T move down from the top of a double's bits; a double has 11 bits of exponent.
  static constexpr int kShift = 11 - (kFloat16 ? 5 : 8);
  static constexpr std::uint64_t kMask =
      std::uint64_t{1} << 63 | std::uint64_t{0x7fff} << (64 - 16 - kShift);  // sign; exponent and fraction
  static constexpr double kUnit = kFloat16 ? 0x1p1008 : 0x1p896;             // from the exponents' biases
};

}  // namespace warpfold::kernels
