// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// describe: the first sweep over integers of 8 and 16 bits is their sum, which it needs twice. The range is a
// sweep of its own (scalar_leaves.cuh), for which minmax has its own way.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/cuda/leaf/minmax.cuh"
#include "kernels/cuda/leaf/sum.cuh"
#include "kernels/operators/describe.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Describe<T, kIgnoreNan>> : PlainLaneLeaf<Describe<T, kIgnoreNan>> {
  using Op = Describe<T, kIgnoreNan>;

  template <class Plainly>
  static __device__ __forceinline__ typename Op::First FoldFirst(const LaneVectors& vectors,
                                                                 const Plainly& plainly) {
    if constexpr (kHasSumOfPacked<T>) {
      const std::uint32_t sum = SumOfPacked<T>(vectors);
      return {sum, sum, typename Op::Range().Identity()};
    } else {
      return plainly();
    }
  }
};

}  // namespace warpfold::kernels::cuda
