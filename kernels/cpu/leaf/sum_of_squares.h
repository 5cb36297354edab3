// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums of the squares of integers, in lanes that a whole leaf does not overflow.
#pragma once

#include "kernels/cpu/elements.h"
#include "kernels/cpu/leaf/nonzero_count.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/cpu/vectors.h"
#include "kernels/operators/sum_of_squares.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct ScalarLeaf<SumOfSquares<T, kIgnoreNan>> : PlainLeaf<SumOfSquares<T, kIgnoreNan>> {};

template <IntegerElement T>
struct ScalarLeaf<SumOfSquares<T, false>> {
  using LeafState = typename SumOfSquares<T, false>::LeafState;

  static LeafState Reduce(const SumOfSquares<T, false>&, const std::byte* data, std::uint64_t count) {
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 8) {
      if (count == kLeafBytes / sizeof(T)) return SumOfWholeLeaf(data);
    }
#endif
    constexpr std::uint64_t kElements = kLeafBytes / sizeof(T);
    // For whole leaves the compiler knows the length and unrolls the loop.
    return count == kElements ? Sum(data, kElements) : Sum(data, count);
  }

 private:
#if defined(__AVX2__)
  // Squares elements of 64 bits with the products of their halves: 2^64 high^2 + 2^33 high low + low^2.
  // Vectors have no wider multiplication. The halves of each product are added up separately.
  static inline __attribute__((always_inline)) Uint192 SumOfWholeLeaf(const std::byte* data) {
    struct Halves {
      Simd<std::uint64_t> low = {};
      Simd<std::uint64_t> high = {};
      void Add(const Simd<std::uint64_t>& product) {
        low += product & 0xffffffffu;
        high += product >> 32;
      }
      Uint128 Total() const {
        return SumOfLanes<Uint128, std::uint64_t>(low) + (SumOfLanes<Uint128, std::uint64_t>(high) << 32);
      }
    };
    Halves low_squares;
    Halves mixed;
    Halves high_squares;
    for (std::uint64_t i = 0; i < kLeafBytes; i += kSimdBytes) {
      const auto x = Magnitude(LoadSimd<std::uint64_t>(data + i));
      const auto high = reinterpret_cast<__m256i>(x >> 32);
      const auto low = reinterpret_cast<__m256i>(x);
      low_squares.Add(reinterpret_cast<Simd<std::uint64_t>>(_mm256_mul_epu32(low, low)));
      mixed.Add(reinterpret_cast<Simd<std::uint64_t>>(_mm256_mul_epu32(low, high)));
      high_squares.Add(reinterpret_cast<Simd<std::uint64_t>>(_mm256_mul_epu32(high, high)));
    }
    const Uint128 twice = mixed.Total();  // below 2^73, times 2^33
    const Uint192 shifted = {
        {static_cast<std::uint64_t>(twice) << 33, static_cast<std::uint64_t>(twice >> 31), 0}};
    const Uint128 top = high_squares.Total();
    const Uint192 upper = {{0, static_cast<std::uint64_t>(top), static_cast<std::uint64_t>(top >> 64)}};
    return Extended(low_squares.Total()) + shifted + upper;
  }
  static inline __attribute__((always_inline)) Simd<std::uint64_t> Magnitude(const Simd<std::uint64_t>& x) {
    if constexpr (!kIsSigned<T>) return x;
    const auto negative = reinterpret_cast<Simd<std::uint64_t>>(reinterpret_cast<Simd<std::int64_t>>(x) < 0);
    return (x ^ negative) - negative;
  }
#endif
  static inline __attribute__((always_inline)) LeafState Sum(const std::byte* data, std::uint64_t count) {
    if constexpr (std::same_as<T, Boolean>) {
      return CountOfNonzero<T, false>(data, count);
    } else if constexpr (sizeof(T) == 1) {
      std::int32_t sum = 0;  // 4096 squares of up to 2^16 fit
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto x = static_cast<std::int16_t>(Load<T>(data, i));
        sum += x * x;
      }
      return static_cast<LeafState>(sum);
    } else if constexpr (sizeof(T) == 2) {
      std::uint64_t sum = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::int32_t x = Load<T>(data, i);
        sum += static_cast<std::uint32_t>(x) * static_cast<std::uint32_t>(x);
      }
      return sum;
    } else {
      // The halves of the squares are kept apart: there is no carry from one to the other.
      using Half = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      using Lane = std::conditional_t<sizeof(T) == 4, std::uint64_t, Uint128>;
      using Wide =
          std::conditional_t<kIsSigned<T>, std::conditional_t<sizeof(T) == 4, std::int64_t, Int128>, Lane>;
      Lane low = 0;
      Lane high = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        const Wide x = Load<T>(data, i);
        const auto square = static_cast<Lane>(x * x);
        low += static_cast<Half>(square);
        high += square >> (8 * sizeof(Half));
      }
      if constexpr (sizeof(T) == 4) {
        return (Uint128{high} << 32) + low;
      } else {
        const Uint128 upper = high + (low >> 64);
        return {{static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(upper),
                 static_cast<std::uint64_t>(upper >> 64)}};
      }
    }
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
