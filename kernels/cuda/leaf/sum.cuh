// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// sum: integers of 8 and 16 bits are summed with dot products, which take four or two of them each. variance
// and describe use the same for the sum in their states of these elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/operators/sum.h"

namespace warpfold::kernels::cuda {

// The sum of a lane's elements of 8 or 16 bits, using dot products with ones.
template <PackedInteger T>
__device__ __forceinline__ std::uint32_t SumOfPacked(const LaneVectors& vectors) {
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

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<Sum<T, kIgnoreNan>> : PlainLaneFold<Sum<T, kIgnoreNan>> {};

template <PackedInteger T>
struct LaneFold<Sum<T, false>> {
  using Op = Sum<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return SumOfPacked<T>(vectors);
  }
};

}  // namespace warpfold::kernels::cuda
