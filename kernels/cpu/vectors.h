// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Vectors of numbers, for loops that use a trick that compilers do not find: the vector types of GCC and
// Clang, which support all arithmetic (https://gcc.gnu.org/onlinedocs/gcc/Vector-Extensions.html).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

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

// Multiplies the first of each pair of signed lanes by kFirst, the second by kSecond, and adds both products,
// in a lane twice as wide. GCC does not find the instruction. If one factor is 0, this widens and shifts at
// once.
template <std::int16_t kFirst, std::int16_t kSecond>
inline __attribute__((always_inline)) Simd<std::int32_t> TimesPair(const Simd<std::uint16_t>& x) {
#if defined(__AVX2__)
  const __m256i factors = _mm256_set1_epi32(kSecond * 65536 + kFirst);
  return reinterpret_cast<Simd<std::int32_t>>(_mm256_madd_epi16(reinterpret_cast<__m256i>(x), factors));
#elif defined(__SSE2__)
  const __m128i factors = _mm_set1_epi32(kSecond * 65536 + kFirst);
  return reinterpret_cast<Simd<std::int32_t>>(_mm_madd_epi16(reinterpret_cast<__m128i>(x), factors));
#else
  const auto first = reinterpret_cast<Simd<std::int32_t>>(reinterpret_cast<Simd<std::uint32_t>>(x) << 16);
  return (first >> 16) * kFirst + (reinterpret_cast<Simd<std::int32_t>>(x) >> 16) * kSecond;
#endif
}

// The sum of the lanes.
template <class Total, class U>
inline __attribute__((always_inline)) Total SumOfLanes(const Simd<U>& x) {
  Total total = 0;
  for (std::uint32_t i = 0; i < kSimdBytes / sizeof(U); ++i) total += static_cast<Total>(x[i]);
  return total;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
