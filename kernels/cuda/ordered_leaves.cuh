// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a warp reduces leaves of an operator that keeps array order.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cuda {

template <Operator Op>
class OrderedLeaves {
 public:
  using Operation = Op;
  using Element = typename Op::Element;
  using State = typename Op::State;
  static constexpr int kWarps = 4;  // matrices want registers more than they want warps
  static constexpr std::uint32_t kLeafElements = LeafElements(sizeof(Element));
  static constexpr std::uint32_t kLargestLevel = 5;

  __device__ OrderedLeaves(const Op& op, const Range& range)
      : op_(op), range_(range), lane_(threadIdx.x % kLanes) {}

  // The state of the aligned, full leaves [first, first + 2^level); in lane 0. Lane i keeps the state of leaf
  // i.
  __device__ State FoldRun(std::uint64_t first, std::uint32_t level) const {
    State own;
    for (std::uint32_t i = 0; i < 1u << level; ++i) {
      const State state = Broadcast(FoldEdge(first + i), 0);
      if (lane_ == i) own = state;
    }
    return FoldLanes(own, 1u << level);
  }

  // The state of one leaf, which may be short; in lane 0. Lane l folds the l-th contiguous run.
  __device__ State FoldEdge(std::uint64_t leaf) const {
    const std::uint64_t skipped = (leaf - range_.first_leaf) * kLeafElements;
    const std::uint64_t rest = range_.element_count - skipped;
    const std::uint32_t count = rest < kLeafElements ? static_cast<std::uint32_t>(rest) : kLeafElements;
    const Element* const elements = reinterpret_cast<const Element*>(range_.data) + skipped;
    const std::uint32_t begin = lane_ * kRunElements;
    const std::uint32_t end = begin + kRunElements < count ? begin + kRunElements : count;
    State state;
    if (begin < end) {
      state = op_.Lift(elements[begin], begin);
      for (std::uint32_t i = begin + 1; i < end; ++i) state = op_.Combine(state, op_.Lift(elements[i], i));
    }
    state = FoldLanes(state, (count + kRunElements - 1) / kRunElements);
    return op_.Widen(state, leaf * kLeafElements);
  }

 private:
  static constexpr std::uint32_t kRuns = kLeafElements < kLanes ? kLeafElements : kLanes;
  static constexpr std::uint32_t kRunElements = kLeafElements / kRuns;

  // Folds the states of the first `present` lanes, neighbours first; into lane 0.
  __device__ State FoldLanes(State state, std::uint32_t present) const {
    for (std::uint32_t width = 1; width < present; width *= 2) {
      const State right = ShuffleDown(state, width);
      if (lane_ % (2 * width) == 0 && lane_ + width < present) state = op_.Combine(state, right);
    }
    return state;
  }

  const Op& op_;
  const Range& range_;
  const std::uint32_t lane_;
};

}  // namespace warpfold::kernels::cuda
