// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Floats of 16 bits. They are only read: every value of both types is exactly a float32.
#pragma once

#include <cstdint>

#include "kernels/operators/portable.h"

namespace warpfold::kernels {

// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction.
struct Float16 {
  std::uint16_t bits;
};

// The upper half of a binary32: 8 bits of exponent, 7 of fraction.
struct Bfloat16 {
  std::uint16_t bits;
};

WARPFOLD_FN float ToFloat(Float16 x) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
#else
  // This has no branches, so that loops vectorise. With its bits moved into place, the magnitude is a float32
  // whose exponent is too small by the difference of the biases, 112: subnormals come out exact, too.
  const std::uint32_t magnitude = (x.bits & 0x7fffu) << 13;
  const float scaled = BitCast<float>(magnitude) * 0x1p112f;
  const std::uint32_t infinite = (x.bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  return BitCast<float>(BitCast<std::uint32_t>(scaled) | infinite | sign);
#endif
}

WARPFOLD_FN float ToFloat(Bfloat16 x) { return BitCast<float>(std::uint32_t{x.bits} << 16); }

}  // namespace warpfold::kernels
