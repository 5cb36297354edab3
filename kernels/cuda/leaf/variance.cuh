// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// variance, and stddev, whose states are the same: the sum and the sum of squares of integers of 8 and 16
// bits, by dot products where there are some.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/cuda/leaf/sum.cuh"
#include "kernels/operators/variance.h"

namespace warpfold::kernels::cuda {

// The sum of the squares of a lane's elements. Those of 8 bits are dot products with themselves.
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
        sums[i] += low * low + high * high;  // 2^31 at most
      } else {
        sums[i] += std::uint64_t{low * low} + high * high;
      }
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <PackedInteger T>
__device__ __forceinline__ typename PowerSumsOperator<T>::LeafState PowerSumsOfPacked(
    const LaneVectors& vectors) {
  return {SumOfPacked<T>(vectors), SumOfSquaresOfPacked<T>(vectors)};
}

// Other elements are folded as by any other operator.
template <class T, bool kIgnoreNan>
struct LaneLeaf<Variance<T, kIgnoreNan>> : PlainLaneLeaf<Variance<T, kIgnoreNan>> {};

template <PackedInteger T>
struct LaneLeaf<Variance<T, false>> {
  using Op = Variance<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return PowerSumsOfPacked<T>(vectors);
  }
};

}  // namespace warpfold::kernels::cuda
