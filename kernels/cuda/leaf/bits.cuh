// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Bitwise operators over elements of 8 and 16 bits: one instruction processes a word of them.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/cuda/vectors.cuh"
#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cuda {

// An operator on bits does the same to four bytes at once as to each of them.
template <template <class, bool> class Family, PackedInteger T>
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

}  // namespace warpfold::kernels::cuda
