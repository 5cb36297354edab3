// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// describe: the smallest and the largest element as minmax has them; then the sums of integers as variance
// has them, and of floats the two plain sweeps, of which the first is variance's where they have 16 bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/cuda/leaf/minmax.cuh"
#include "kernels/cuda/leaf/variance.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/operators/describe.h"

namespace warpfold::kernels::cuda {

// describe of halves, whose mean is found by variance's first sweep.
template <HalfElement T>
struct DescribeByScaledSweep : Describe<T, false> {
  using Base = Describe<T, false>;
  using typename Base::First;
  using typename Base::LeafState;
  using typename Base::Second;
  using Lane = ScaledSweep<T>;

  __device__ First LiftFirst(T x) const {
    return {typename Base::Sums().Lift(x, 0), Lane().LiftFirst(x), typename Base::Extremes().Lift(x, 0)};
  }
  __device__ double Center(const First& first, std::uint32_t present) const {
    return Lane().Center(first.lane, present);
  }
  __device__ LeafState Join(const First& first, double center, Second second, std::uint32_t present) const {
    return {first.sum, Lane().Join(first.lane, center, second, present), first.range};
  }
};

template <class Op>
struct DescribeSweepsOf {
  using type = Op;
};
template <HalfElement T>
struct DescribeSweepsOf<Describe<T, false>> {
  using type = DescribeByScaledSweep<T>;
};

// Floats. The extremes are a sweep of their own, done before the others: interleaved, they would need more
// registers than there are.
template <class T, bool kIgnoreNan>
struct LaneLeaf<Describe<T, kIgnoreNan>> {
  using Op = Describe<T, kIgnoreNan>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op& op, LaneVectors& vectors,
                                                                std::uint32_t first) {
    using Extremes = typename Op::Extremes;
    auto extremes = LaneLeaf<Extremes>::Fold(Extremes(), vectors, first);
    Pin(extremes);
    typename Op::LeafState folded =
        TwoLaneSweeps<typename DescribeSweepsOf<Op>::type>::Fold({op}, vectors, first);
    folded.range = extremes;  // the compiler drops what led to the other ones
    return folded;
  }
};

template <IntegerElement T>
struct LaneLeaf<Describe<T, false>> {
  using Op = Describe<T, false>;

  static __device__ __forceinline__ typename Op::LeafState Fold(const Op&, const LaneVectors& vectors,
                                                                std::uint32_t first) {
    using Extremes = typename Op::Extremes;
    const auto extremes = LaneLeaf<Extremes>::Fold(Extremes(), vectors, first);
    return {PowerSumsOf<T>(vectors), extremes};
  }
};

}  // namespace warpfold::kernels::cuda
