// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// describe: the smallest and the largest element, found as by minmax; then, for integers, the sums as by
// variance, and for floats the two plain sweeps.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/lane_fold.cuh"
#include "kernels/cuda/leaf/minmax.cuh"
#include "kernels/cuda/leaf/variance.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/operators/describe.h"

namespace warpfold::kernels::cuda {

// Floats. The extremes take a separate sweep, before the others: interleaved, they would need more registers
// than there are.
template <class T, bool kIgnoreNan>
struct LaneFold<Describe<T, kIgnoreNan>> {
  using Op = Describe<T, kIgnoreNan>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op& op, LaneVectors& vectors,
                                                                std::uint32_t first) {
    using Extremes = typename Op::Extremes;
    auto extremes = LaneFold<Extremes>::Fold(Extremes(), vectors, first);
    Pin(extremes);
    typename Op::LeafState folded = PlainLaneFold<Op>::Fold(op, vectors, first);
    folded.range = extremes;  // the compiler drops what computed the other ones
    return folded;
  }
};

template <IntegerElement T>
struct LaneFold<Describe<T, false>> {
  using Op = Describe<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t first) {
    using Extremes = typename Op::Extremes;
    const auto extremes = LaneFold<Extremes>::Fold(Extremes(), vectors, first);
    return {PowerSumsOf<T>(vectors), extremes};
  }
};

}  // namespace warpfold::kernels::cuda
