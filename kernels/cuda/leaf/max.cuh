// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// max: see extrema.cuh.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/extrema.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/operators/max.h"

namespace warpfold::kernels::cuda {

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<Max<T, kIgnoreNan>> : PlainLaneFold<Max<T, kIgnoreNan>> {};

template <ExtremumElement T, bool kIgnoreNan>
struct LaneFold<Max<T, kIgnoreNan>> {
  using Op = Max<T, kIgnoreNan>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op& op, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return ExtremumOf(op, vectors);
  }
};

}  // namespace warpfold::kernels::cuda
