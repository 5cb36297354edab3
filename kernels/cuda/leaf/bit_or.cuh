// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// bit_or: see bits.cuh.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/bits.cuh"
#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/operators/bit_or.h"

namespace warpfold::kernels::cuda {

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<BitOr<T, kIgnoreNan>> : PlainLaneFold<BitOr<T, kIgnoreNan>> {};

template <PackedInteger T>
struct LaneFold<BitOr<T, false>> {
  using Op = BitOr<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return BitsOfPacked<BitOr, T>(vectors);
  }
};

}  // namespace warpfold::kernels::cuda
