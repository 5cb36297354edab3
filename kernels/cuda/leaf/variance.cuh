// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// variance, and stddev, whose states are the same: the sum and the sum of squares of integers. For 8 bits
// these are dot products; for 16 bits two squares are added at a time; elements of 32 and 64 bits are treated
// as unsigned numbers, and those of 64 bits are squared by halves. Floats of 16 bits are swept twice like all
// floats, but the first sweep does not convert them, unless NaN are ignored.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/cuda/leaf/sum.cuh"
#include "kernels/operators/half_as_double.h"
#include "kernels/operators/variance.h"

namespace warpfold::kernels::cuda {

// The sum of the squares of a lane's elements. For 8 bits these are dot products of words with themselves.
template <IntegerElement T>
requires(sizeof(T) == 1) __device__ __forceinline__ std::uint32_t
    SumOfSquaresOfPacked(const LaneVectors& vectors) {
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
// The sum of two squares of elements of 16 bits fits 32 bits.
template <IntegerElement T>
requires(sizeof(T) == 2) __device__ __forceinline__ std::uint64_t
    SumOfSquaresOfPacked(const LaneVectors& vectors) {
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
        sums[i] += low * low + high * high;  // at most 2^31
      } else {
        sums[i] += std::uint64_t{low * low} + high * high;
      }
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <PackedInteger T>
__device__ __forceinline__ typename PowerSumsOperator<T>::LeafState PowerSumsOf(const LaneVectors& vectors) {
  return {SumOfPacked<T>(vectors), SumOfSquaresOfPacked<T>(vectors)};
}

// Elements of 64 bits are squared by halves: (2^32 h + l)^2 = 2^64 h^2 + 2^33 h l + l^2. The three products
// have a sum each, so that one instruction multiplies and adds, and everything else is done once per lane. A
// signed x is treated as y = x + 2^63: for n elements, sum(x^2) = sum(y^2) - 2^64 sum(y) + n 2^126.
template <IntegerElement T>
requires(sizeof(T) == 8) __device__ __forceinline__ typename PowerSumsOperator<T>::LeafState
    PowerSumsOf(const LaneVectors& vectors) {
  constexpr std::uint32_t kBias = kIsSigned<T> ? 0x80000000u : 0;
  Uint128 sum = 0;
  Uint128 low_squares = 0;
  Uint128 mixed = 0;
  Uint128 high_squares = 0;
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    const std::uint64_t halves[2][2] = {{vectors[row].x, vectors[row].y ^ kBias},
                                        {vectors[row].z, vectors[row].w ^ kBias}};
#pragma unroll
    for (const auto& [low, high] : halves) {
      sum += high << 32 | low;
      low_squares += low * low;
      mixed += low * high;
      high_squares += high * high;
    }
  }
  const Uint128 lower = low_squares + (mixed << 33);
  Uint128 upper = (lower >> 64) + high_squares;
  if constexpr (kIsSigned<T>) {
    constexpr Uint128 kLaneElements = 2 * kLeafRows;
    upper += (kLaneElements << 62) - sum;
    sum -= kLaneElements << 63;
  }
  return {AsWords(sum),
          {static_cast<std::uint64_t>(lower), static_cast<std::uint64_t>(upper),
           static_cast<std::uint64_t>(upper >> 64)}};
}

// Elements of 32 bits. A signed x is treated as y = x + 2^31: for n elements, sum(x^2) = sum(y^2) - 2^32
// sum(y) + n 2^62.
template <IntegerElement T>
requires(sizeof(T) == 4) __device__ __forceinline__ typename PowerSumsOperator<T>::LeafState
    PowerSumsOf(const LaneVectors& vectors) {
  constexpr std::uint32_t kBias = kIsSigned<T> ? 0x80000000u : 0;
  std::uint64_t sum = 0;
  Uint128 squares = 0;
#pragma unroll
  for (int row = 0; row < kLeafRows; ++row) {
    const std::uint32_t words[4] = {vectors[row].x, vectors[row].y, vectors[row].z, vectors[row].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t biased = words[i] ^ kBias;
      sum += biased;
      squares += biased * biased;
    }
  }
  if constexpr (kIsSigned<T>) {
    constexpr std::uint64_t kLaneElements = 4 * kLeafRows;
    squares += (Uint128{kLaneElements} << 62) - (Uint128{sum} << 32);
    sum -= kLaneElements << 31;
  }
  return {sum, AsWords(squares)};
}

// The first of variance's two sweeps over halves, which are read as doubles that are scaled by a power of 2:
// a GPU can do few conversions per cycle. A sum that is scaled like this rounds as it would unscaled.
template <HalfElement T>
struct ScaledSweep : Variance<T, false> {
  using Base = Variance<T, false>;
  using Half = HalfAsDouble<T>;
  using typename Base::Second;

  __device__ double LiftFirst(T x) const {
    constexpr auto kUpperMask = static_cast<std::int32_t>(Half::kMask >> 32);
    const auto bits = static_cast<std::int32_t>(std::uint32_t{x.bits} << 16);
    return __hiloint2double((bits >> Half::kShift) & kUpperMask, 0);
  }
  __device__ double Center(double first, std::uint32_t present) const {
    return Base::Center(first * Half::kUnit, present);
  }
  // This sweep takes an infinity or a NaN for a number, but the second sweep does not: the sum of its
  // deviations is finite exactly if all elements are. If it is not, there is no variance.
  __device__ Moments Join(double first, double center, Second second, std::uint32_t present) const {
    return Base::Join(first, center, std::isfinite(second.sum) ? second : Second{NAN, NAN}, present);
  }
};

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<Variance<T, kIgnoreNan>> : PlainLaneFold<Variance<T, kIgnoreNan>> {};

template <IntegerElement T>
struct LaneFold<Variance<T, false>> {
  using Op = Variance<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return PowerSumsOf<T>(vectors);
  }
};

template <HalfElement T>
struct LaneFold<Variance<T, false>> {
  static __device__ __forceinline__ Moments Fold(const Variance<T, false>& op, LaneVectors& vectors,
                                                 std::uint32_t first) {
    return TwoLaneSweeps<ScaledSweep<T>>::Fold({op}, vectors, first);
  }
};

}  // namespace warpfold::kernels::cuda
