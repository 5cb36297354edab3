// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// bit_xor: see bits.cuh.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/bits.cuh"
#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/operators/bit_xor.h"

namespace warpfold::kernels::cuda {

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<BitXor<T, kIgnoreNan>> : PlainLaneFold<BitXor<T, kIgnoreNan>> {};

template <PackedInteger T>
struct LaneFold<BitXor<T, false>> {
  using Op = BitXor<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return BitsOfPacked<BitXor, T>(vectors);
  }
};

}  // namespace warpfold::kernels::cuda
