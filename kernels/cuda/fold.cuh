// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of a reduction: the last block to finish folds all partials into the range's maximal subtrees.
#pragma once

#include <cstdint>

#include "kernels/cuda/geometry.cuh"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::cuda {

// Whether this block is the last of the grid to get here. What every block wrote before is then visible
// to all threads of that block.
//
// The writes of a block's threads happen before its barrier; thread 0's fence then releases them and the
// fence behind the ticket acquires those of all blocks before it (fences are cumulative). atomicInc wraps
// the ticket to zero at the last block: it needs no memset and serves the stream's next launch.
__device__ inline bool IsLastBlock(unsigned* ticket) {
  if (gridDim.x == 1) {
    __syncthreads();
    return true;
  }
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

// Folds segments of adjacent nodes and writes those that remain to the workspace, in array order: nodes
// without a left sibling from the front, nodes without a right one from the back.
template <Operator Op>
class NodeFolder {
 public:
  using State = typename Op::State;
  static constexpr std::uint32_t kSharedBytes = 16384;
  static constexpr std::uint32_t kSharedStates = kSharedBytes / sizeof(State);

  // `width` states make up a node. `shared` holds kSharedStates.
  __device__ NodeFolder(const Op& op, const Workspace& workspace, std::uint32_t width, State* shared)
      : op_(op), workspace_(workspace), width_(width), shared_(shared) {}

  // Folds nodes [begin, end) of one level, whose states start at `states` and are overwritten, until none are
  // left or `levels` levels up. Returns where the states of those left, [begin, end) of that level, are. The
  // whole block calls this, first for the left edge, then the right edge, then the units.
  __device__ State* Fold(State* states, std::uint64_t& begin, std::uint64_t& end, std::uint32_t levels) {
    for (std::uint32_t level = 0; begin < end && level < levels; ++level) {
      if (begin % 2 == 1) {
        Write(front_++, states);
        states += width_;
        ++begin;
      }
      if (begin < end && end % 2 == 1) {
        --end;
        Write(workspace_.node_count - 1 - back_++, states + (end - begin) * width_);
      }
      begin /= 2;
      end /= 2;
      states = CombinePairs(states, (end - begin) * width_);
    }
    __syncthreads();
    return states;
  }

 private:
  // As many combinations are in flight at once as registers allow.
  static constexpr int kBatch = sizeof(State) <= 16 ? 4 : 1;

  __device__ void Write(std::uint32_t node, const State* states) const {
    auto* out = reinterpret_cast<State*>(workspace_.nodes + node * workspace_.node_stride);
    for (std::uint32_t i = threadIdx.x; i < width_; i += blockDim.x) out[i] = states[i];
  }

  // Combines each node with its right neighbour; returns where the `count` resulting states are: in place,
  // or in shared memory once they fit. In place is safe because each batch is read before it is written,
  // and never written beyond what has been read.
  __device__ State* CombinePairs(State* states, std::uint64_t count) {
    State* const out = count <= kSharedStates ? shared_ : states;
    for (std::uint64_t base = 0; base < count; base += std::uint64_t{kBatch} * blockDim.x) {
      State combined[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const std::uint64_t i = base + b * blockDim.x + threadIdx.x;
        if (i < count) {
          const std::uint64_t left = i / width_ * 2 * width_ + i % width_;
          combined[b] = op_.Combine(states[left], states[left + width_]);
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

  const Op& op_;
  const Workspace& workspace_;
  const std::uint32_t width_;
  State* const shared_;
  std::uint32_t front_ = 0;
  std::uint32_t back_ = 0;
};

// Folds the partials of a launch: of edge leaves first, then of units.
template <Operator Op>
__device__ void FoldPartials(const Op& op, const Range& range, const Geometry& geometry,
                             const Workspace& workspace, std::uint32_t width) {
  using State = typename Op::State;
  __shared__ alignas(16) std::byte shared[NodeFolder<Op>::kSharedBytes];
  NodeFolder<Op> folder(op, workspace, width, reinterpret_cast<State*>(shared));
  constexpr std::uint32_t kAllLevels = 64;
  State* const edges = reinterpret_cast<State*>(workspace.partials);
  std::uint64_t begin = range.first_leaf;
  std::uint64_t end = range.first_leaf + geometry.left_edge;
  if (geometry.units == 0) {
    folder.Fold(edges, begin, end, kAllLevels);
    return;
  }
  folder.Fold(edges, begin, end, geometry.unit_level);

  State* const units = edges + geometry.edge_leaves() * width;
  const std::uint64_t end_unit = geometry.first_unit + geometry.units;
  begin = end_unit << geometry.unit_level;
  end = begin + geometry.right_edge;
  const State* const rest = folder.Fold(edges + geometry.left_edge * width, begin, end, geometry.unit_level);
  // A right edge that ends in a short leaf may be as long as a unit: then it is the last one.
  if (begin < end) {
    for (std::uint32_t i = threadIdx.x; i < width; i += blockDim.x)
      units[geometry.units * width + i] = rest[i];
    __syncthreads();
  }
  const bool one_more = begin < end;
  begin = geometry.first_unit;
  end = end_unit + one_more;
  folder.Fold(units, begin, end, kAllLevels);
}

}  // namespace warpfold::kernels::cuda
