// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements of 8 and 16 bits, of which one instruction processes several. This serves operators whose
// combinations do not depend on the order at all: the smallest, the largest, bits, and sums and products of
// integers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/vectors.cuh"
#include "kernels/operators/element_types.h"

namespace warpfold::kernels::cuda {

// A word's elements as integers: a boolean is 1 if its byte is not 0.
template <class T>
__device__ __forceinline__ std::uint32_t ValuesOf(std::uint32_t word) {
  if constexpr (std::is_same_v<T, Boolean>) {
    return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
  } else {
    return word;
  }
}

// The magnitudes of a word's elements, side by side. They are unsigned, so the smallest element has a
// magnitude, too.
template <class T>
__device__ __forceinline__ std::uint32_t MagnitudesOf(std::uint32_t word) {
  if constexpr (!kIsSigned<T>) return ValuesOf<T>(word);
  constexpr std::uint32_t kEach = sizeof(T) == 1 ? 0x01010101 : 0x00010001;
  const std::uint32_t negative = word >> (8 * sizeof(T) - 1) & kEach;
  return (word ^ negative * static_cast<Bits<T>>(~0u)) + negative;  // no carry: 0 is not negative
}

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

}  // namespace warpfold::kernels::cuda
