// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// describe: of integers of 8 and 16 bits, what variance and minmax have. Of others the range is a sweep of
// its own (scalar_leaves.cuh), for which minmax has its own way.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/cuda/leaf/minmax.cuh"
#include "kernels/cuda/leaf/variance.cuh"
#include "kernels/operators/describe.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Describe<T, kIgnoreNan>> {
  using Op = Describe<T, kIgnoreNan>;

  template <class Plainly>
  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t first, const Plainly& plainly) {
    if constexpr (kHasSumOfPacked<T>) {
      using Range = typename Op::Range;
      // Elements that are packed have a way of their own, which never comes back to the plain one.
      const auto range = LaneLeaf<Range>::Fold(Range(), vectors, first, [] { return Range().Identity(); });
      return {PowerSumsOfPacked<T>(vectors), range};
    } else {
      return plainly();
    }
  }
};

}  // namespace warpfold::kernels::cuda
