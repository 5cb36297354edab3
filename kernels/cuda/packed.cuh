// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of 8 and 16 bits, several to an instruction. For operators whose combinations do not depend on the
// order at all: the smallest, the largest, bits, and sums and products of integers.
//
// FoldPacked(op, vectors) gives what folding this lane's elements of a full leaf one by one would give.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/vectors.cuh"
#include "kernels/operators/bit_and.h"
#include "kernels/operators/bit_or.h"
#include "kernels/operators/bit_xor.h"
#include "kernels/operators/describe.h"
#include "kernels/operators/extremum.h"
#include "kernels/operators/minmax.h"
#include "kernels/operators/power_sums.h"
#include "kernels/operators/product.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels::cuda {

// Folds the words of all vectors, each seen through `map`, with `combine`.
template <class Map, class Combine>
__device__ __forceinline__ std::uint32_t FoldWords(const LaneVectors& vectors, const Map& map,
                                                   const Combine& combine) {
  std::uint32_t folded[4];
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    const std::uint32_t words[4] = {vectors[row].x, vectors[row].y, vectors[row].z, vectors[row].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) folded[i] = row == 0 ? map(words[i]) : combine(folded[i], map(words[i]));
  }
  return combine(combine(folded[0], folded[1]), combine(folded[2], folded[3]));
}

#if __CUDA_ARCH__ < 800  // one by one, by their keys
template <class T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ std::uint32_t ExtremaOfFloatHalves(std::uint32_t a, std::uint32_t b) {
  constexpr Extremum<T, kIgnoreNan, kMax> op{};
  const auto of = [&](std::uint32_t x, std::uint32_t y) {
    const auto key = op.Combine(op.Lift(BitCast<T>(static_cast<std::uint16_t>(x)), 0),
                                op.Lift(BitCast<T>(static_cast<std::uint16_t>(y)), 0));
    return std::uint32_t{static_cast<std::uint16_t>(FlipMagnitude<T>(key))};
  };
  return of(a >> 16, b >> 16) << 16 | of(a, b);
}
#else
#define WARPFOLD_OF_HALVES(instruction) asm(instruction " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b))

template <class T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ std::uint32_t ExtremaOfFloatHalves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  if constexpr (std::is_same_v<T, Float16>) {
    if constexpr (kMax && kIgnoreNan) WARPFOLD_OF_HALVES("max.f16x2");
    if constexpr (kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("max.NaN.f16x2");
    if constexpr (!kMax && kIgnoreNan) WARPFOLD_OF_HALVES("min.f16x2");
    if constexpr (!kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("min.NaN.f16x2");
  } else {
    if constexpr (kMax && kIgnoreNan) WARPFOLD_OF_HALVES("max.bf16x2");
    if constexpr (kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("max.NaN.bf16x2");
    if constexpr (!kMax && kIgnoreNan) WARPFOLD_OF_HALVES("min.bf16x2");
    if constexpr (!kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("min.NaN.bf16x2");
  }
  return out;
}
#undef WARPFOLD_OF_HALVES
#endif

// The extrema of each half of two words. Floats (PTX ISA, min and max): -0.0 is below +0.0; with .NaN a NaN
// goes before numbers, without it numbers before a NaN.
template <class T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ std::uint32_t ExtremaOfHalves(std::uint32_t a, std::uint32_t b) {
  if constexpr (HalfElement<T>) {
    return ExtremaOfFloatHalves<T, kIgnoreNan, kMax>(a, b);
  } else if constexpr (kIsSigned<T>) {
    return kMax ? __vmaxs2(a, b) : __vmins2(a, b);
  } else {
    return kMax ? __vmaxu2(a, b) : __vminu2(a, b);
  }
}

// Combines the two halves of a word as elements; an element of 8 bits is the upper byte of its half.
template <class Op, class T = typename Op::Element>
__device__ __forceinline__ typename Op::LeafState CombineHalves(const Op& op, std::uint32_t word) {
  constexpr int kShift = 16 - 8 * sizeof(T);
  const auto low = BitCast<T>(static_cast<Bits<T>>(word >> kShift));
  const auto high = BitCast<T>(static_cast<Bits<T>>(word >> (16 + kShift)));
  return op.Combine(op.Lift(low, 0), op.Lift(high, 0));
}

template <class T>
inline constexpr bool kPacks = sizeof(T) <= 2;

// A word's elements as integers: of booleans 1 where the byte is not 0.
template <class T>
__device__ __forceinline__ std::uint32_t ValuesOf(std::uint32_t word) {
  if constexpr (std::is_same_v<T, Boolean>) {
    return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
  } else {
    return word;
  }
}

template <AnyElement T, bool kIgnoreNan, bool kMax>
requires kPacks<T> __device__ __forceinline__ Key<T> FoldPacked(const Extremum<T, kIgnoreNan, kMax>& op,
                                                                const LaneVectors& vectors) {
  const auto combine = ExtremaOfHalves<T, kIgnoreNan, kMax>;
  const Key<T> upper =
      CombineHalves(op, FoldWords(
                            vectors, [](std::uint32_t word) { return ValuesOf<T>(word); }, combine));
  if constexpr (sizeof(T) == 2) return upper;
  // A byte compares as the upper one of a half, whatever is below it.
  return op.Combine(
      upper,
      CombineHalves(op, FoldWords(
                            vectors, [](std::uint32_t word) { return ValuesOf<T>(word) << 8; }, combine)));
}

template <AnyElement T, bool kIgnoreNan>
requires kPacks<T> __device__ __forceinline__ typename Minmax<T, kIgnoreNan>::State FoldPacked(
    const Minmax<T, kIgnoreNan>&, const LaneVectors& vectors) {
  using Op = Minmax<T, kIgnoreNan>;
  return {FoldPacked(typename Op::Least(), vectors), FoldPacked(typename Op::Greatest(), vectors)};
}

// An operator on bits does to four bytes at once what it does to each.
template <template <class, bool> class Family, class T>
__device__ __forceinline__ Bits<T> FoldBits(const LaneVectors& vectors) {
  constexpr Family<std::uint32_t, false> kWords;
  std::uint32_t word = FoldWords(
      vectors, [](std::uint32_t w) { return ValuesOf<T>(w); },
      [&](std::uint32_t a, std::uint32_t b) { return kWords.Combine(a, b); });
#pragma unroll
  for (int bits = 16; bits >= static_cast<int>(8 * sizeof(T)); bits /= 2)
    word = kWords.Combine(word, word >> bits);
  return static_cast<Bits<T>>(word);
}
template <IntegerElement T>
requires kPacks<T> __device__ __forceinline__ Bits<T> FoldPacked(const BitAnd<T, false>&,
                                                                 const LaneVectors& vectors) {
  return FoldBits<BitAnd, T>(vectors);
}
template <IntegerElement T>
requires kPacks<T> __device__ __forceinline__ Bits<T> FoldPacked(const BitOr<T, false>&,
                                                                 const LaneVectors& vectors) {
  return FoldBits<BitOr, T>(vectors);
}
template <IntegerElement T>
requires kPacks<T> __device__ __forceinline__ Bits<T> FoldPacked(const BitXor<T, false>&,
                                                                 const LaneVectors& vectors) {
  return FoldBits<BitXor, T>(vectors);
}

// Dot products with ones.
template <IntegerElement T>
requires kPacks<T> __device__ __forceinline__ std::uint32_t FoldPacked(const Sum<T, false>&,
                                                                       const LaneVectors& vectors) {
  constexpr std::uint32_t kOnes = 0x01010101;
  std::uint32_t sums[4] = {};
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    const std::uint32_t words[4] = {vectors[row].x, vectors[row].y, vectors[row].z, vectors[row].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      using Word = std::conditional_t<kIsSigned<T>, int, unsigned>;
      const auto word = static_cast<Word>(ValuesOf<T>(words[i]));
      const auto sum = static_cast<Word>(sums[i]);
      sums[i] = sizeof(T) == 1 ? __dp4a(word, Word{kOnes}, sum) : __dp2a_lo(word, Word{kOnes}, sum);
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The magnitudes of a word's elements, side by side. Of the smallest element, too: as unsigned numbers.
template <class T>
__device__ __forceinline__ std::uint32_t MagnitudesOf(std::uint32_t word) {
  if constexpr (!kIsSigned<T>) return ValuesOf<T>(word);
  constexpr std::uint32_t kEach = sizeof(T) == 1 ? 0x01010101 : 0x00010001;
  const std::uint32_t negative = word >> (8 * sizeof(T) - 1) & kEach;
  return (word ^ negative * static_cast<Bits<T>>(~0u)) + negative;  // no carry: 0 is not negative
}

// The sum of the squares of elements of 8 bits: dot products with themselves.
template <IntegerElement T>
requires(sizeof(T) == 1) __device__ __forceinline__ std::uint32_t
    SumOfSquaredBytes(const LaneVectors& vectors) {
  std::uint32_t sums[4] = {};
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    const std::uint32_t words[4] = {vectors[row].x, vectors[row].y, vectors[row].z, vectors[row].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      using Word = std::conditional_t<kIsSigned<T>, int, unsigned>;
      const auto word = static_cast<Word>(ValuesOf<T>(words[i]));
      sums[i] = __dp4a(word, word, static_cast<Word>(sums[i]));
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
// The same of 16 bits. Two squares fit 32 bits.
template <IntegerElement T>
requires(sizeof(T) == 2) __device__ __forceinline__ std::uint64_t
    SumOfSquaredHalves(const LaneVectors& vectors) {
  std::uint64_t sums[4] = {};
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    const std::uint32_t words[4] = {vectors[row].x, vectors[row].y, vectors[row].z, vectors[row].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t magnitudes = MagnitudesOf<T>(words[i]);
      const std::uint32_t low = magnitudes & 0xffff;
      const std::uint32_t high = magnitudes >> 16;
      if constexpr (kIsSigned<T>) {
        sums[i] += low * low + high * high;  // 2^31 at most
      } else {
        sums[i] += std::uint64_t{low * low} + high * high;
      }
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
template <IntegerElement T>
requires kPacks<T> __device__ __forceinline__ typename PowerSumsOperator<T>::LeafState FoldPacked(
    const PowerSumsOperator<T>&, const LaneVectors& vectors) {
  const std::uint32_t sum = FoldPacked(Sum<T, false>(), vectors);
  if constexpr (sizeof(T) == 1) {
    return {sum, SumOfSquaredBytes<T>(vectors)};
  } else {
    return {sum, SumOfSquaredHalves<T>(vectors)};
  }
}
template <IntegerElement T>
requires kPacks<T> __device__ __forceinline__ typename Describe<T, false>::LeafState FoldPacked(
    const Describe<T, false>&, const LaneVectors& vectors) {
  return {FoldPacked(PowerSumsOperator<T>(), vectors), FoldPacked(Minmax<T, false>(), vectors)};
}

// The product of a word's elements. It fits.
template <class T>
__device__ __forceinline__ std::uint32_t ProductOf(std::uint32_t word) {
  if constexpr (sizeof(T) == 2) return (word & 0xffff) * (word >> 16);
  return (word & 0xff) * (word >> 8 & 0xff) * ((word >> 16 & 0xff) * (word >> 24));
}

// Multiplies as many elements as 64 bits hold the product of before they meet the state, in chains side by
// side, because each waits for its multiplications.
template <IntegerElement T>
requires kPacks<T> __device__ __forceinline__ typename Product<T, false>::LeafState FoldPacked(
    const Product<T, false>& op, const LaneVectors& vectors) {
  using State = typename Product<T, false>::LeafState;
  State states[4];
  std::uint32_t signs = 0;
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    const std::uint32_t words[4] = {vectors[row].x, vectors[row].y, vectors[row].z, vectors[row].w};
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      if constexpr (kIsSigned<T>) signs ^= words[i] ^ words[i + 1];
      const std::uint32_t low = ProductOf<T>(MagnitudesOf<T>(words[i]));
      const std::uint32_t high = ProductOf<T>(MagnitudesOf<T>(words[i + 1]));
      const State factor = {std::uint64_t{low} * high, static_cast<float>(low) * static_cast<float>(high), 0};
      State& state = states[row % 2 * 2 + i / 2];
      state = row < 2 ? factor : op.Combine(state, factor);
    }
  }
  signs ^= signs << 16;
  if constexpr (sizeof(T) == 1) signs ^= signs << 8;
  State state = op.Combine(op.Combine(states[0], states[1]), op.Combine(states[2], states[3]));
  state.signs = signs;
  return state;
}

}  // namespace warpfold::kernels::cuda
