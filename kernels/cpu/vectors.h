// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Vectors of integers, for loops whose trick a compiler does not find: the vector types of GCC and Clang,
// which know all arithmetic (https://gcc.gnu.org/onlinedocs/gcc/Vector-Extensions.html).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

#if defined(__AVX2__)
inline constexpr std::uint32_t kSimdBytes = 32;
#else
inline constexpr std::uint32_t kSimdBytes = 16;
#endif

template <class U>
struct SimdOf {
  typedef U type __attribute__((vector_size(kSimdBytes)));
};
// Lanes of U.
template <class U>
using Simd = typename SimdOf<U>::type;

template <class U>
inline __attribute__((always_inline)) Simd<U> LoadSimd(const std::byte* data) {
  Simd<U> x;
  std::memcpy(&x, data, sizeof x);
  return x;
}

// The sum of the lanes.
template <class Total, class U>
inline __attribute__((always_inline)) Total SumOfLanes(const Simd<U>& x) {
  Total total = 0;
  for (std::uint32_t i = 0; i < kSimdBytes / sizeof(U); ++i) total += static_cast<Total>(x[i]);
  return total;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
