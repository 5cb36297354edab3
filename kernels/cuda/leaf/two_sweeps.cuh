// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a lane folds its elements of a leaf for an operator that sweeps over them twice (TwoSweeps): the first
// pass finds a center, around which the second one sums.
#pragma once

#include <cstdint>

#include "kernels/cuda/leaf/lane_sweep.cuh"
#include "kernels/cuda/vectors.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// Each pass is an operator that LaneSweep accepts.
template <TwoSweeps Op>
struct FirstPass {
  using Element = typename Op::Element;
  using LeafState = typename Op::First;
  const Op& op;

  __device__ LeafState Lift(Element x, std::uint32_t) const { return op.LiftFirst(x); }
  __device__ LeafState Combine(const LeafState& a, const LeafState& b) const { return op.CombineFirst(a, b); }
  __device__ LeafState LeafIdentity() const { return op.FirstIdentity(); }
};

template <TwoSweeps Op>
struct SecondPass {
  using Element = typename Op::Element;
  using LeafState = typename Op::Second;
  const Op& op;
  double center;

  __device__ LeafState Lift(Element x, std::uint32_t) const { return op.LiftSecond(x, center); }
  __device__ LeafState Combine(const LeafState& a, const LeafState& b) const {
    return op.CombineSecond(a, b);
  }
  __device__ LeafState LeafIdentity() const { return {}; }
};

// Writes its own value to each word of kRows rows of elements T. ptxas keeps elements that it has converted
// for one pass until the other, in more registers than there are; it also converts those of 32 bits before it
// knows the center. So it must not know that the elements are the same.
template <class T, int kFirst = 0, int kRows = kLeafRows>
__device__ __forceinline__ void ForgetConversions(LaneVectors& vectors, double center) {
  if constexpr (sizeof(T) == 4 || HalfElement<T>) {
    std::uint32_t zero = OpaqueZero();
    if constexpr (sizeof(T) == 4) zero &= static_cast<std::uint32_t>(__double2hiint(center));
#pragma unroll
    for (int row = kFirst; row < kFirst + kRows; ++row) {
      uint4& v = vectors[row];
      v = {v.x ^ zero, v.y ^ zero, v.z ^ zero, v.w ^ zero};
    }
  }
}

// The arguments are those of LaneSweep, but `vectors` is not constant, because of ForgetConversions.
template <TwoSweeps Op>
class TwoLaneSweeps {
 public:
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using First = FirstPass<Op>;
  using Second = SecondPass<Op>;

  static __device__ __forceinline__ LeafState Fold(const Op& op, LaneVectors& vectors, std::uint32_t first) {
    const auto found = LaneSweep<First>::Fold({op}, vectors, first);
    const double center = op.Center(found, kLaneElements);
    ForgetConversions<T>(vectors, center);
    return op.Join(found, center, LaneSweep<Second>::Fold({op, center}, vectors, first), kLaneElements);
  }

  static __device__ __forceinline__ LeafState FoldShort(const Op& op, LaneVectors& vectors,
                                                        std::uint32_t first, std::uint32_t count) {
    const std::uint32_t present = PresentInLane(count, first / kVector, Log2(kVector));
    if (present == 0) return op.LeafIdentity();
    const auto found = LaneSweep<First>::FoldShort({op}, vectors, first, count);
    const double center = op.Center(found, present);
    ForgetConversions<T>(vectors, center);
    return op.Join(found, center, LaneSweep<Second>::FoldShort({op, center}, vectors, first, count), present);
  }

 private:
  static constexpr std::uint32_t kVector = kVectorBytes / sizeof(T);
  static constexpr std::uint32_t kLaneElements = kLeafRows * kVector;
};

}  // namespace warpfold::kernels::cuda
