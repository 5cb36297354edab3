// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of 8 and 16 bits, several to an instruction. For operators whose combinations do not depend on the
// order at all: the smallest, the largest, and bits.
//
// FoldPacked(op, vectors) gives what folding this lane's elements of a full leaf one by one would give.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/geometry.h"
#include "kernels/operators/bit_and.h"
#include "kernels/operators/bit_or.h"
#include "kernels/operators/bit_xor.h"
#include "kernels/operators/extremum.h"
#include "kernels/operators/minmax.h"

namespace warpfold::kernels::cuda {

// A lane's part of a leaf.
using LaneVectors = uint4[kLeafRows];

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

#define WARPFOLD_OF_HALVES(instruction) asm(instruction " %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b))

// The extrema of each half of two words. Floats (PTX ISA, min and max): -0.0 is below +0.0; with .NaN a NaN
// goes before numbers, without it numbers before a NaN.
template <class T, bool kIgnoreNan, bool kMax>
__device__ __forceinline__ std::uint32_t ExtremaOfHalves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out;
  if constexpr (std::is_same_v<T, Float16>) {
    if constexpr (kMax && kIgnoreNan) WARPFOLD_OF_HALVES("max.f16x2");
    if constexpr (kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("max.NaN.f16x2");
    if constexpr (!kMax && kIgnoreNan) WARPFOLD_OF_HALVES("min.f16x2");
    if constexpr (!kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("min.NaN.f16x2");
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    if constexpr (kMax && kIgnoreNan) WARPFOLD_OF_HALVES("max.bf16x2");
    if constexpr (kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("max.NaN.bf16x2");
    if constexpr (!kMax && kIgnoreNan) WARPFOLD_OF_HALVES("min.bf16x2");
    if constexpr (!kMax && !kIgnoreNan) WARPFOLD_OF_HALVES("min.NaN.bf16x2");
  } else if constexpr (kIsSigned<T>) {
    out = kMax ? __vmaxs2(a, b) : __vmins2(a, b);
  } else {
    out = kMax ? __vmaxu2(a, b) : __vminu2(a, b);
  }
  return out;
}

#undef WARPFOLD_OF_HALVES

// Of the two halves of a word, seen as elements; one of 8 bits is a half's upper byte.
template <class Op, class T = typename Op::Element>
__device__ __forceinline__ typename Op::LeafState CombineHalves(const Op& op, std::uint32_t word) {
  constexpr int kShift = 16 - 8 * sizeof(T);
  const auto low = BitCast<T>(static_cast<Bits<T>>(word >> kShift));
  const auto high = BitCast<T>(static_cast<Bits<T>>(word >> (16 + kShift)));
  return op.Combine(op.Lift(low, 0), op.Lift(high, 0));
}

template <class T>
inline constexpr bool kPacks = sizeof(T) <= 2 && !std::is_same_v<T, Boolean>;

template <AnyElement T, bool kIgnoreNan, bool kMax>
requires kPacks<T> __device__ __forceinline__ Key<T> FoldPacked(const Extremum<T, kIgnoreNan, kMax>& op,
                                                                const LaneVectors& vectors) {
  const auto combine = ExtremaOfHalves<T, kIgnoreNan, kMax>;
  const Key<T> upper = CombineHalves(op, FoldWords(
                                             vectors, [](std::uint32_t word) { return word; }, combine));
  if constexpr (sizeof(T) == 2) return upper;
  // A byte compares as the upper one of a half, whatever is below it.
  return op.Combine(upper,
                    CombineHalves(op, FoldWords(
                                          vectors, [](std::uint32_t word) { return word << 8; }, combine)));
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
      vectors, [](std::uint32_t w) { return w; },
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

}  // namespace warpfold::kernels::cuda
