// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// minmax: the smallest element in one pass over the lane's registers, the largest in another one.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/extrema.cuh"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/operators/minmax.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Minmax<T, kIgnoreNan>> {
  using Op = Minmax<T, kIgnoreNan>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op& op, LaneVectors& vectors,
                                                                std::uint32_t first) {
    const typename Op::Least least;
    const typename Op::Greatest greatest;
    if constexpr (kPacks<T>) {
      return {ExtremumOfPacked(least, vectors), ExtremumOfPacked(greatest, vectors)};
    } else if constexpr (kHasExtremumOfFloats<T>) {
      return {ExtremumOfFloats(least, vectors), ExtremumOfFloats(greatest, vectors)};
    } else {
      return PlainLaneLeaf<Op>::Fold(op, vectors, first);
    }
  }
};

}  // namespace warpfold::kernels::cuda
