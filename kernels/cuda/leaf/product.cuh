// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// product: integers of 8 and 16 bits are multiplied, as many as have a product of at most 64 bits, before
// they are combined with a state.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/cuda/leaf/packed.cuh"
#include "kernels/operators/product.h"

namespace warpfold::kernels::cuda {

// The product of a word's elements. It fits.
template <class T>
__device__ __forceinline__ std::uint32_t ProductOf(std::uint32_t word) {
  if constexpr (sizeof(T) == 2) return (word & 0xffff) * (word >> 16);
  return (word & 0xff) * (word >> 8 & 0xff) * ((word >> 16 & 0xff) * (word >> 24));
}

// Multiplies as many elements as have a product of at most 64 bits before they are combined with the state,
// in parallel chains, because each chain waits for its multiplications.
template <PackedInteger T>
__device__ __forceinline__ typename Product<T, false>::LeafState ProductOfPacked(const Product<T, false>& op,
                                                                                 const LaneVectors& vectors) {
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

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<Product<T, kIgnoreNan>> : PlainLaneFold<Product<T, kIgnoreNan>> {};

template <PackedInteger T>
struct LaneFold<Product<T, false>> {
  using Op = Product<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op& op, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return ProductOfPacked(op, vectors);
  }
};

}  // namespace warpfold::kernels::cuda
