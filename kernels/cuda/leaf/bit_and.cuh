// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// bit_and: see bits.cuh.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/bits.cuh"
#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/operators/bit_and.h"

namespace warpfold::kernels::cuda {

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<BitAnd<T, kIgnoreNan>> : PlainLaneFold<BitAnd<T, kIgnoreNan>> {};

template <PackedInteger T>
struct LaneFold<BitAnd<T, false>> {
  using Op = BitAnd<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return BitsOfPacked<BitAnd, T>(vectors);
  }
};

}  // namespace warpfold::kernels::cuda
