// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// minmax: the smallest element in one pass over the lane's registers, and the largest in another one.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/extrema.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/operators/minmax.h"

namespace warpfold::kernels::cuda {

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<Minmax<T, kIgnoreNan>> : PlainLaneFold<Minmax<T, kIgnoreNan>> {};

template <ExtremumElement T, bool kIgnoreNan>
struct LaneFold<Minmax<T, kIgnoreNan>> {
  using Op = Minmax<T, kIgnoreNan>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t) {
    return {ExtremumOf(typename Op::Least(), vectors), ExtremumOf(typename Op::Greatest(), vectors)};
  }
};

}  // namespace warpfold::kernels::cuda
