// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// variance, and stddev, whose states are the same: the first sweep over integers of 8 and 16 bits is their
// sum.
#pragma once

#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/cuda/leaf/sum.cuh"
#include "kernels/operators/variance.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Variance<T, kIgnoreNan>> : PlainLaneLeaf<Variance<T, kIgnoreNan>> {
  template <class Plainly>
  static __device__ __forceinline__ auto FoldFirst(const LaneVectors& vectors, const Plainly& plainly) {
    if constexpr (kHasSumOfPacked<T>) {
      return SumOfPacked<T>(vectors);
    } else {
      return plainly();
    }
  }
};

}  // namespace warpfold::kernels::cuda
