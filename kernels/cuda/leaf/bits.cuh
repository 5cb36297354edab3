// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Bitwise operators over elements of 8 and 16 bits: an instruction takes a word of them.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cuda {

// An operator on bits does to four bytes at once what it does to each.
template <template <class, bool> class Family, class T>
__device__ __forceinline__ Bits<T> BitsOfPacked(const LaneVectors& vectors) {
  constexpr Family<std::uint32_t, false> kWords;
  std::uint32_t word = FoldWords(
      vectors, [](std::uint32_t w) { return ValuesOf<T>(w); },
      [&](std::uint32_t a, std::uint32_t b) { return kWords.Combine(a, b); });
#pragma unroll
  for (int bits = 16; bits >= static_cast<int>(8 * sizeof(T)); bits /= 2)
    word = kWords.Combine(word, word >> bits);
  return static_cast<Bits<T>>(word);
}

// The LaneLeaf of Family<T, false>.
template <template <class, bool> class Family, class T>
struct BitsLaneLeaf {
  using Op = Family<T, false>;

  static __device__ __forceinline__ Bits<T> Fold(const Op& op, LaneVectors& vectors, std::uint32_t first) {
    if constexpr (kPacks<T>) {
      return BitsOfPacked<Family, T>(vectors);
    } else {
      return PlainLaneLeaf<Op>::Fold(op, vectors, first);
    }
  }
};

}  // namespace warpfold::kernels::cuda
