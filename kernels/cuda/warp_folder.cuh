// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// WarpFolder: the same as NodeFolder, with shuffles instead of shared memory, for states of a few words.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/node_folder.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// Does the same as NodeFolder, for states of a few words: it folds five levels at a time, and each warp folds
// an aligned group of 32 nodes.
template <Operator Op>
class WarpFolder {
 public:
  using State = typename Op::State;
  static constexpr std::uint32_t kSharedBytes = kFoldBytes;

  __device__ WarpFolder(const Op& op, const Workspace& workspace, State* shared, State*)
      : op_(op),
        workspace_(workspace),
        shared_(shared),
        lane_(threadIdx.x % kLanes),
        warp_(threadIdx.x / kLanes) {}

  // Does the same as NodeFolder::Fold.
  __device__ __forceinline__ State Fold(State* states, std::uint64_t& begin, std::uint64_t& end,
                                        std::uint32_t levels, Side side) {
    while (end - begin > kLanes) {
      // Nodes outside the full groups have no partner five levels up: all of them are written here.
      const std::uint64_t first = (begin + kLanes - 1) / kLanes;
      const std::uint64_t last = end / kLanes;
      State* const full = states + (first * kLanes - begin);
      State* const behind = states + (last * kLanes - begin);
      std::uint64_t end_before = first * kLanes;
      std::uint64_t begin_behind = last * kLanes;
      FoldFew(states, begin, end_before, kGroupLevels, Side::kFront);
      FoldFew(behind, begin_behind, end, kGroupLevels, Side::kBack);
      begin = first;
      end = last;
      levels -= kGroupLevels;
      states = FoldGroups(full, end - begin, states);
    }
    return FoldFew(states, begin, end, levels, side);
  }

 private:
  static constexpr std::uint32_t kGroupLevels = 5;
  static constexpr std::uint32_t kInFlight = kGroupsInFlight;

  // Folds up to 32 nodes, one per lane, as Fold does. Every warp does the same; warp 0 writes. Returns the
  // node that is left, if one is.
  //
  // A lane goes as many levels up as there are complete subtrees of the range that begin with its node. The
  // result is then written, unless it is part of another lane's. None of that depends on the states.
  __device__ State FoldFew(const State* states, std::uint64_t& begin, std::uint64_t& end,
                           std::uint32_t levels, Side side) {
    if (begin == end) return {};
    const auto count = static_cast<std::uint32_t>(end - begin);
    const bool exists = lane_ < count;
    const std::uint32_t index = static_cast<std::uint32_t>(begin) + lane_;
    const std::uint32_t level =
        exists ? min(levels, min(__clz(__brev(index)), 31 - __clz(count - lane_))) : 0;
    const bool has_left_sibling = (index >> level) % 2 == 1 && lane_ >> level > 0;
    const bool is_left = exists && level == levels;
    const bool is_node = exists && !is_left && !has_left_sibling;
    const unsigned nodes = __ballot_sync(kFullWarp, is_node);
    const std::uint32_t count_written = __popc(nodes);
    const std::uint32_t first = side == Side::kFront ? front_ : workspace_.node_count - back_ - count_written;
    front_ += side == Side::kFront ? count_written : 0;
    back_ += side == Side::kBack ? count_written : 0;

    State state{};
    if (exists) state = states[lane_];
#pragma unroll 1  // otherwise there are more instructions to fetch than to execute
    for (std::uint32_t l = 0; l < levels && 2u << l <= count; ++l) {
      state = Choose(l < level, op_.Combine(state, ShuffleDown(state, 1 << l)), state);
    }
    if (is_node && warp_ == 0) {
      const std::uint32_t node = first + __popc(nodes & ((1u << lane_) - 1));
      *reinterpret_cast<State*>(workspace_.nodes + node * workspace_.node_stride) = state;
    }
    const unsigned left = __ballot_sync(kFullWarp, is_left);
    if (left == 0) {
      begin = end;
      return state;
    }
    const int lane = __ffs(static_cast<int>(left)) - 1;
    begin = (begin + lane) >> levels;
    end = begin + 1;
    return ShuffleFrom(state, lane);
  }

  // Folds `groups` aligned groups of 32 nodes into one each, which go to shared memory if they fit, otherwise
  // to `beyond`. Both may be where the nodes are: every node is read before its place is overwritten, and
  // results never extend beyond what has been read.
  __device__ State* FoldGroups(const State* nodes, std::uint64_t groups, State* beyond) {
    State* const out = groups * sizeof(State) <= kSharedBytes ? shared_ : beyond;
    const std::uint32_t warps = blockDim.x / kLanes;
    for (std::uint64_t base = 0; base < groups; base += kInFlight * warps) {
      State states[kInFlight];
#pragma unroll
      for (std::uint32_t b = 0; b < kInFlight; ++b) {
        const std::uint64_t group = base + b * warps + warp_;
        states[b] = group < groups ? nodes[group * kLanes + lane_] : State{};
      }
#pragma unroll
      for (std::uint32_t b = 0; b < kInFlight; ++b) {
        // Lanes whose partner is not a right neighbour compute nothing useful, and lane 0 never reads their
        // states.
        for (std::uint32_t width = 1; width < kLanes; width *= 2) {
          states[b] = op_.Combine(states[b], ShuffleDown(states[b], width));
        }
      }
      __syncthreads();
#pragma unroll
      for (std::uint32_t b = 0; b < kInFlight; ++b) {
        const std::uint64_t group = base + b * warps + warp_;
        if (lane_ == 0 && group < groups) out[group] = states[b];
      }
    }
    __syncthreads();
    return out;
  }

  const Op op_;
  const Workspace workspace_;
  State* const shared_;
  const std::uint32_t lane_;
  const std::uint32_t warp_;
  std::uint32_t front_ = 0;
  std::uint32_t back_ = 0;
};

}  // namespace warpfold::kernels::cuda
