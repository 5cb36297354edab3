// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// argmin: see arg_extrema.cuh.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/arg_extrema.cuh"
#include "kernels/cuda/leaf/element_kinds.cuh"
#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/operators/argmin.h"

namespace warpfold::kernels::cuda {

// All other types use the plain method.
template <class T, bool kIgnoreNan>
struct LaneFold<Argmin<T, kIgnoreNan>> : PlainLaneFold<Argmin<T, kIgnoreNan>> {};

template <WideFloat T, bool kIgnoreNan>
struct LaneFold<Argmin<T, kIgnoreNan>> {
  using Op = Argmin<T, kIgnoreNan>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op& op, const LaneVectors& vectors,
                                                                std::uint32_t first) {
    typename Op::LeafState folded;
    if (ArgExtremumOfFloats(op, vectors, first, folded)) return folded;
    return PlainLaneFold<Op>::Fold(op, vectors, first);
  }
};

}  // namespace warpfold::kernels::cuda
