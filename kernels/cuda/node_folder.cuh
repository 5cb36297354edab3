// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// NodeFolder: how a block folds nodes of one level into the maximal subtrees above them, whatever size states
// have.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/tuning.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// The two ends from which the workspace's list of nodes is filled. The list is in array order: a node that is
// written at the front comes after those written there before, and one written at the back comes before those
// written there.
enum class Side { kFront, kBack };

// Folds stretches of adjacent nodes of one level, level by level, and writes those that remain without a
// partner, which are maximal subtrees of the range, to the workspace: a right child whose left sibling is not
// in the range at the front, a left child whose right sibling is not in it at the back. States may have any
// size; the block's threads share the work of each level.
template <Operator Op>
class NodeFolder {
 public:
  using State = typename Op::State;
  static constexpr std::uint32_t kSharedBytes = kFoldBytes;
  static constexpr std::uint32_t kSharedStates = kSharedBytes / sizeof(State);

  // `shared` holds kSharedStates. `spare` is device memory for the results of CombineFours: a quarter of n
  // states, then a quarter of those, and so on, together a third of n, where n is the number of states that
  // all calls of Fold get. A call with at most kFewNodes needs none.
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
  static constexpr int kInFlight = PairsInFlight(sizeof(State));

  __device__ void Write(std::uint32_t node, const State& state) const {
    if (threadIdx.x == 0) *reinterpret_cast<State*>(workspace_.nodes + node * workspace_.node_stride) = state;
  }

  // Combines aligned groups of four, two levels at once; returns where the resulting states are: not where
  // other states have yet to be read, so that no thread waits for another. Nodes outside the groups are
  // written.
  //
  // No barrier is needed between an earlier Fold and this one, though both use the same shared memory. An
  // edge is aligned at its inner end, so that at each level at most one node is left over, at the outer end.
  // What the earlier Fold reads after its last barrier, to write or to return it, is therefore one state,
  // state 0, and only thread 0 reads it. Here no other thread overwrites state 0: the first group is thread
  // 0's.
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
  // in shared memory once they fit. In place is safe because every state is read before its place is
  // overwritten, and nothing is written beyond what has been read.
  __device__ State* CombinePairs(State* states, std::uint64_t count) {
    State* const out = count <= kSharedStates ? shared_ : states;
    if (count == 0) return out;
    for (std::uint64_t base = 0; base < count; base += std::uint64_t{kInFlight} * blockDim.x) {
      State combined[kInFlight];
#pragma unroll
      for (int b = 0; b < kInFlight; ++b) {
        const std::uint64_t i = base + b * blockDim.x + threadIdx.x;
        if (i < count) {
          combined[b] = op_.Combine(states[2 * i], states[2 * i + 1]);
        }
      }
      __syncthreads();
#pragma unroll
      for (int b = 0; b < kInFlight; ++b) {
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

}  // namespace warpfold::kernels::cuda
