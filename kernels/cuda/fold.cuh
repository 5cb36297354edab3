// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a reduction: the last block to finish folds all partials into the range's maximal subtrees.
#pragma once

#include <cstdint>

#include "kernels/cuda/geometry.cuh"
#include "kernels/cuda/ticket.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/geometry.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cuda {

// Folds segments of adjacent nodes and writes those that remain to the workspace, in array order: nodes
// without a left sibling from the front, nodes without a right one from the back. States may have any
// size; the block's threads share out each level.
template <Operator Op>
class NodeFolder {
 public:
  using State = typename Op::State;
  static constexpr std::uint32_t kSharedBytes = 16384;
  static constexpr std::uint32_t kSharedStates = kSharedBytes / sizeof(State);

  // `shared` holds kSharedStates.
  __device__ NodeFolder(const Op& op, const Workspace& workspace, State* shared)
      : op_(op), workspace_(workspace), shared_(shared) {}

  // Folds nodes [begin, end) of one level, whose states start at `states` and are overwritten, until none are
  // left or `levels` levels up. Returns where the states of those left, [begin, end) of that level, are. The
  // whole block calls this, first for the left edge, then the right edge, then the units.
  __device__ State* Fold(State* states, std::uint64_t& begin, std::uint64_t& end, std::uint32_t levels) {
    for (std::uint32_t level = 0; begin < end && level < levels; ++level) {
      if (begin % 2 == 1) {
        Write(front_++, states);
        ++states;
        ++begin;
      }
      if (begin < end && end % 2 == 1) {
        --end;
        Write(workspace_.node_count - 1 - back_++, states + (end - begin));
      }
      begin /= 2;
      end /= 2;
      states = CombinePairs(states, end - begin);
    }
    return states;
  }

 private:
  // As many combinations are in flight at once as registers allow.
  static constexpr int kBatch = sizeof(State) <= 16 ? 4 : 1;

  __device__ void Write(std::uint32_t node, const State* state) const {
    if (threadIdx.x == 0)
      *reinterpret_cast<State*>(workspace_.nodes + node * workspace_.node_stride) = *state;
  }

  // Combines each node with its right neighbour; returns where the `count` resulting states are: in place,
  // or in shared memory once they fit. In place is safe because each batch is read before it is written,
  // and never written beyond what has been read.
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
  std::uint32_t front_ = 0;
  std::uint32_t back_ = 0;
};

// The same for states of a few words: five levels at a time, each warp an aligned group of 32 nodes.
template <Operator Op>
class WarpFolder {
 public:
  using State = typename Op::State;
  static constexpr std::uint32_t kSharedBytes = 16384;

  __device__ WarpFolder(const Op& op, const Workspace& workspace, State* shared)
      : op_(op),
        workspace_(workspace),
        shared_(shared),
        lane_(threadIdx.x % kLanes),
        warp_(threadIdx.x / kLanes) {}

  // As NodeFolder::Fold.
  __device__ State* Fold(State* states, std::uint64_t& begin, std::uint64_t& end, std::uint32_t levels) {
    while (end - begin > kLanes) {
      // Nodes outside the full groups have no partner five levels up: all of them are written here.
      const std::uint64_t first = (begin + kLanes - 1) / kLanes;
      const std::uint64_t last = end / kLanes;
      State* const full = states + (first * kLanes - begin);
      State* const behind = states + (last * kLanes - begin);
      FoldFew(states, begin, first * kLanes, kGroupLevels);
      FoldFew(behind, last * kLanes, end, kGroupLevels);
      begin = first;
      end = last;
      levels -= kGroupLevels;
      states = FoldGroups(full, end - begin, states);
    }
    const State rest = FoldFew(states, begin, end, levels, &begin, &end);
    if (begin < end) {
      __syncthreads();
      if (threadIdx.x == 0) shared_[0] = rest;
      __syncthreads();
    }
    return shared_;
  }

 private:
  static constexpr std::uint32_t kGroupLevels = 5;
  static constexpr std::uint32_t kBatch = 4;  // groups that a warp has in flight

  __device__ void Write(std::uint32_t node, const State& state, std::uint32_t lane) const {
    if (threadIdx.x == lane)
      *reinterpret_cast<State*>(workspace_.nodes + node * workspace_.node_stride) = state;
  }

  // Up to 32 nodes [begin, end), one a lane. Every warp does the same; warp 0 writes. Returns the node that
  // is left, if one is, in lane 0.
  __device__ State FoldFew(const State* states, std::uint64_t begin, std::uint64_t end, std::uint32_t levels,
                           std::uint64_t* left_begin = nullptr, std::uint64_t* left_end = nullptr) {
    State state{};
    if (lane_ < end - begin) state = states[lane_];
    for (std::uint32_t level = 0; begin < end && level < levels; ++level) {
      if (begin % 2 == 1) {
        Write(front_++, state, 0);
        state = ShuffleDown(state, 1);
        ++begin;
      }
      if (begin < end && end % 2 == 1) {
        --end;
        Write(workspace_.node_count - 1 - back_++, state, static_cast<std::uint32_t>(end - begin));
      }
      const State pair = op_.Combine(state, ShuffleDown(state, 1));
      state = ShuffleFrom(pair, 2 * lane_ % kLanes);
      begin /= 2;
      end /= 2;
    }
    if (left_begin != nullptr) {
      *left_begin = begin;
      *left_end = end;
    }
    return state;
  }

  // Folds `groups` aligned groups of 32 nodes into one each, which go to shared memory if they fit and else
  // to `spare`. Both may be where the nodes are: each batch is read before it is written, and results never
  // reach beyond what has been read.
  __device__ State* FoldGroups(const State* nodes, std::uint64_t groups, State* spare) {
    State* const out = groups * sizeof(State) <= kSharedBytes ? shared_ : spare;
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

template <class Op>
using NodeFolderFor = std::conditional_t<sizeof(typename Op::State) <= 16, WarpFolder<Op>, NodeFolder<Op>>;

// Folds the partials of a launch: of edge leaves first, then of units.
template <class Folder, Operator Op>
__device__ void FoldPartials(const Op& op, const Range& range, const Geometry& geometry,
                             const Workspace& workspace) {
  using State = typename Op::State;
  __shared__ alignas(16) std::byte shared[Folder::kSharedBytes];
  Folder folder(op, workspace, reinterpret_cast<State*>(shared));
  constexpr std::uint32_t kAllLevels = 64;
  State* const edges = reinterpret_cast<State*>(workspace.partials);
  std::uint64_t begin = range.first_leaf;
  std::uint64_t end = range.first_leaf + geometry.left_edge;
  if (geometry.units == 0) {
    folder.Fold(edges, begin, end, kAllLevels);
    return;
  }
  folder.Fold(edges, begin, end, geometry.unit_level);

  State* const units = edges + geometry.edge_leaves();
  const std::uint64_t end_unit = geometry.first_unit + geometry.units;
  begin = end_unit << geometry.unit_level;
  end = begin + geometry.right_edge;
  const State* const rest = folder.Fold(edges + geometry.left_edge, begin, end, geometry.unit_level);
  // A right edge that ends in a short leaf may be as long as a unit: then it is the last one.
  if (begin < end) {
    if (threadIdx.x == 0) units[geometry.units] = *rest;
    __syncthreads();
  }
  const bool one_more = begin < end;
  begin = geometry.first_unit;
  end = end_unit + one_more;
  folder.Fold(units, begin, end, kAllLevels);
}

}  // namespace warpfold::kernels::cuda
