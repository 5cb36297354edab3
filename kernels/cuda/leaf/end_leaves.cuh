// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp finds the first or the last element that is present: it reads from that end, 32 elements at a
// time, until some of these are present. Elements beyond them in its run are not read.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// A Leaves of ReduceKernel.
template <EndOperator Op>
class EndLeaves {
 public:
  using Operation = Op;
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  static constexpr int kWarps = kEndLeavesTuning.warps;
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kBlocksPerMultiprocessor = kEndLeavesTuning.blocks;
  static constexpr std::uint32_t kLeafElements = kLeafBytes / sizeof(T);
  static constexpr std::uint32_t kLargestLevel = kEndLeavesTuning.largest_level;
  static constexpr bool kHasShort = false;

  __device__ EndLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes) {}

  __device__ void Prefetch(std::uint64_t) const {}
  __device__ void PrefetchEdge(std::uint64_t) const {}

  // Returns, in every lane, the state of the leaves [first, first + 2^level), the last of which may be short.
  __device__ __forceinline__ State FoldRun(std::uint64_t first, std::uint32_t level, std::uint64_t) const {
    const std::uint64_t begin = (first - range_.first_leaf) * kLeafElements;
    const std::uint64_t rest = range_.element_count - begin;
    const std::uint64_t full = std::uint64_t{kLeafElements} << level;
    return Search(begin, rest < full ? rest : full);
  }

 private:
  // Reads the range's elements [begin, begin + count), a warp's width at a time.
  __device__ State Search(std::uint64_t begin, std::uint64_t count) const {
    const T* const elements = reinterpret_cast<const T*>(range_.data) + begin;
    for (std::uint64_t skipped = 0; skipped < count; skipped += kLanes) {
      const std::uint64_t distance = skipped + lane_;  // from the end where the search begins
      LeafState state = op_.LeafIdentity();
      if (distance < count) state = op_.Lift(elements[Op::kFromTheLeft ? distance : count - 1 - distance], 0);
      const unsigned present = __ballot_sync(kFullWarp, state.present != 0);
      if (present != 0) return op_.Widen(ShuffleFrom(state, __ffs(static_cast<int>(present)) - 1), 0);
    }
    return op_.Identity();
  }

  const Op op_;
  const Range range_;
  const std::uint32_t lane_;
};

}  // namespace warpfold::kernels::cuda
