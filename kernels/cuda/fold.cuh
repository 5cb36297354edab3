// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a reduction: the last block to finish folds all partials into the range's maximal subtrees.
#pragma once

#include <cstdint>

#include "kernels/cuda/geometry.cuh"
#include "kernels/cuda/ticket.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// The two ends from which the workspace's list of nodes is filled. The list is in array order: a node that
// is written at the front comes behind those written there before, and one written at the back comes before
// those.
enum class Side { kFront, kBack };

// Folds stretches of adjacent nodes of one level, level by level, and writes those that stay without a
// partner, which are maximal subtrees of the range, to the workspace: a right child whose left sibling is
// not in the range at the front, a left child whose right sibling is not in it at the back. States may have
// any size; the block's threads share out each level.
template <Operator Op>
class NodeFolder {
 public:
  using State = typename Op::State;
  static constexpr std::uint32_t kSharedBytes = kFoldBytes;
  static constexpr std::uint32_t kSharedStates = kSharedBytes / sizeof(State);

  // `shared` holds kSharedStates. `spare` is memory of the device for what CombineFours makes: a quarter of n
  // states, then a quarter of those, and so on, which together are a third of n, the states that all calls of
  // Fold get. A call with at most kFewNodes needs none.
  __device__ NodeFolder(const Op& op, const Workspace& workspace, State* shared, State* spare)
      : op_(op), workspace_(workspace), shared_(shared), spare_(spare) {}

  // Folds nodes [begin, end) of one level, whose states start at `states` and are overwritten. It ends when
  // all are written, or `levels` levels up, where at most one node may be left: then [begin, end) is that
  // node, and the result, in thread 0, is its state. The whole block calls this, first for the left edge,
  // then for the right edge, then for the units: so the front and the back fill in array order. WarpFolder
  // has the same interface; it must know the side, which this folder need not, and it needs no `spare`.
  __device__ __forceinline__ State Fold(State* states, std::uint64_t& begin, std::uint64_t& end,
                                        std::uint32_t levels, Side) {
    while (states != shared_ && end - begin > kFewNodes) {
      states = CombineFours(states, begin, end);
      levels -= 2;  // more than kFewNodes nodes have at least as many levels above them
    }
    for (std::uint32_t level = 0; begin < end && level < levels; ++level) {
      if (begin % 2 == 1) {
        Write(front_++, *states);
        ++states;
        ++begin;
      }
      if (begin < end && end % 2 == 1) {
        --end;
        Write(workspace_.node_count - 1 - back_++, states[end - begin]);
      }
      begin /= 2;
      end /= 2;
      states = CombinePairs(states, end - begin);
    }
    State rest{};
    if (begin < end && threadIdx.x == 0) rest = *states;
    return rest;
  }

 private:
  static constexpr int kBatch = PairsInFlight(sizeof(State));

  __device__ void Write(std::uint32_t node, const State& state) const {
    if (threadIdx.x == 0) *reinterpret_cast<State*>(workspace_.nodes + node * workspace_.node_stride) = state;
  }

  // Combines aligned groups of four, two levels at once; returns where the resulting states are: not where
  // others have yet to be read, so that no thread waits for another. Nodes outside the groups are written.
  //
  // No barrier stands before it, though a Fold before this one may have left states in shared memory. An edge
  // is aligned at its inner end, so that of the states that such a Fold leaves behind its last barrier only
  // the first is read, by thread 0, which is also the one that overwrites it here.
  __device__ State* CombineFours(const State* states, std::uint64_t& begin, std::uint64_t& end) {
    const std::uint64_t first = (begin + 3) / 4;
    const std::uint64_t last = end / 4;
    const State* const nodes = states + (first * 4 - begin);
    const State* const behind = states + (last * 4 - begin);
    if (begin % 2 == 1) Write(front_++, states[0]);
    if (begin % 4 == 1 || begin % 4 == 2) Write(front_++, op_.Combine(nodes[-2], nodes[-1]));
    if (end % 2 == 1) Write(workspace_.node_count - 1 - back_++, behind[end % 4 - 1]);
    if (end % 4 >= 2) Write(workspace_.node_count - 1 - back_++, op_.Combine(behind[0], behind[1]));
    begin = first;
    end = last;
    const std::uint64_t groups = last - first;
    State* const out = groups <= kSharedStates ? shared_ : spare_;
    for (std::uint64_t group = threadIdx.x; group < groups; group += blockDim.x) {
      const State* const four = nodes + 4 * group;
      out[group] = op_.Combine(op_.Combine(four[0], four[1]), op_.Combine(four[2], four[3]));
    }
    __syncthreads();
    spare_ += groups;
    return out;
  }

  // Combines each node with its right neighbour; returns where the `count` resulting states are: in place, or
  // in shared memory once they fit. In place is safe because each batch is read before it is written, and
  // never written beyond what has been read.
  __device__ State* CombinePairs(State* states, std::uint64_t count) {
    State* const out = count <= kSharedStates ? shared_ : states;
    if (count == 0) return out;
    for (std::uint64_t base = 0; base < count; base += std::uint64_t{kBatch} * blockDim.x) {
      State combined[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const std::uint64_t i = base + b * blockDim.x + threadIdx.x;
        if (i < count) {
          combined[b] = op_.Combine(states[2 * i], states[2 * i + 1]);
        }
      }
      __syncthreads();
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const std::uint64_t i = base + b * blockDim.x + threadIdx.x;
        if (i < count) out[i] = combined[b];
      }
      __syncthreads();
    }
    return out;
  }

  const Op op_;
  const Workspace workspace_;
  State* const shared_;
  State* spare_;
  std::uint32_t front_ = 0;
  std::uint32_t back_ = 0;
};

// Does the same for states of a few words: it folds five levels at a time, each warp an aligned group of 32
// nodes.
template <Operator Op>
class WarpFolder {
 public:
  using State = typename Op::State;
  static constexpr std::uint32_t kSharedBytes = kFoldBytes;

  __device__ WarpFolder(const Op& op, const Workspace& workspace, State* shared, State* = nullptr)
      : op_(op),
        workspace_(workspace),
        shared_(shared),
        lane_(threadIdx.x % kLanes),
        warp_(threadIdx.x / kLanes) {}

  // Does what NodeFolder::Fold does.
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
  static constexpr std::uint32_t kBatch = kGroupsInFlight;

  // Folds up to 32 nodes, one a lane, as Fold does. Every warp does the same; warp 0 writes. Returns the node
  // that is left, if one is.
  //
  // A lane goes as many levels up as there are complete subtrees of the range that begin with its node. What
  // it has then is written unless it is part of another lane's. None of that depends on the states.
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
#pragma unroll 1  // or there are more instructions to fetch than to execute
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

  // Folds `groups` aligned groups of 32 nodes into one each, which go to shared memory if they fit and else
  // to `beyond`. Both may be where the nodes are: each batch is read before it is written, and results never
  // reach beyond what has been read.
  __device__ State* FoldGroups(const State* nodes, std::uint64_t groups, State* beyond) {
    State* const out = groups * sizeof(State) <= kSharedBytes ? shared_ : beyond;
    const std::uint32_t warps = blockDim.x / kLanes;
    for (std::uint64_t base = 0; base < groups; base += kBatch * warps) {
      State states[kBatch];
#pragma unroll
      for (std::uint32_t b = 0; b < kBatch; ++b) {
        const std::uint64_t group = base + b * warps + warp_;
        states[b] = group < groups ? nodes[group * kLanes + lane_] : State{};
      }
#pragma unroll
      for (std::uint32_t b = 0; b < kBatch; ++b) {
        // Lanes whose partner is not a right neighbour compute nothing of use, and lane 0 never reads them.
        for (std::uint32_t width = 1; width < kLanes; width *= 2) {
          states[b] = op_.Combine(states[b], ShuffleDown(states[b], width));
        }
      }
      __syncthreads();
#pragma unroll
      for (std::uint32_t b = 0; b < kBatch; ++b) {
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

// All lanes of a WarpFolder combine, also those whose result nobody reads: that must be cheap.
template <class Op>
using NodeFolderFor =
    std::conditional_t<sizeof(typename Op::State) <= kMostWarpFoldedBytes && !TakesModulus<Op>,
                       WarpFolder<Op>, NodeFolder<Op>>;

// Folds the partials of a launch: of edge leaves, which start at `edges`, and of units behind them.
//
// The left edge, the right edge and the units are one loop, so that the code of a Fold is there once: it
// takes most of the time that such a kernel takes to compile, and each launch fetches it.
template <class Folder, Operator Op>
__device__ __forceinline__ void FoldPartials(const Op& op, const Range& range, const Geometry& geometry,
                                             const Workspace& workspace, typename Op::State* edges) {
  using State = typename Op::State;
  WARPFOLD_SHARED(std::byte, shared, [Folder::kSharedBytes]);
  // There is room for 1 KiB a leaf (DeviceReducer::Create); a state for each and a third for what they are
  // folded into take no more than 683 bytes of that.
  static_assert(sizeof(State) <= 512);
  State* const units = edges + geometry.edge_leaves();
  Folder folder(op, workspace, reinterpret_cast<State*>(shared), units + geometry.units + 1);
  const std::uint64_t end_unit = geometry.first_unit + geometry.units;
  // Where there are no units, all leaves are the left edge.
  const int stretches = geometry.units > 0 ? 3 : 1;
  bool one_more = false;
#pragma unroll 1
  for (int stretch = 0; stretch < stretches; ++stretch) {
    const bool is_left = stretch == 0;
    const bool is_right = stretch == 1;
    State* const states = is_left ? edges : is_right ? edges + geometry.left_edge : units;
    std::uint64_t begin = is_left    ? range.first_leaf
                          : is_right ? end_unit << geometry.unit_level
                                     : geometry.first_unit;
    std::uint64_t end = begin + (is_left    ? geometry.left_edge
                                 : is_right ? geometry.right_edge
                                            : geometry.units + one_more);
    const std::uint32_t levels = stretch + 1 < stretches ? geometry.unit_level : kTreeLevels;
    const State rest = folder.Fold(states, begin, end, levels, is_right ? Side::kBack : Side::kFront);
    // A right edge that ends in a short leaf may be as long as a unit: then it is the last one.
    if (is_right && begin < end) {
      one_more = true;
      if (threadIdx.x == 0) units[geometry.units] = rest;
      __syncthreads();
    }
  }
}

}  // namespace warpfold::kernels::cuda
