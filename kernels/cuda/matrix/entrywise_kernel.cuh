// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Scalar operators on arrays of matrices, entry by entry: a thread follows one entry through a stretch of
// leaves, eight leaves at a time. Adjacent threads read adjacent entries. (Small matrices have few of these:
// then a load touches many lines, and the next loads find the rest of them in the first-level cache.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/matrix/tree_kernel.cuh"
#include "kernels/cuda/matrix/tree_schedule.h"
#include "kernels/cuda/tuning.h"
#include "kernels/geometry.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

// Matrices with more entries are cut into parts of kPartEntries.
inline constexpr std::uint32_t kPartEntries = kEntrywiseThreads;
// A thread folds a stretch of adjacent leaves, at least one, eight at a time.
inline constexpr std::uint32_t kEight = 1u << kEightLevel;

struct EntrywisePlan {
  TreePlan tree;
  std::uint32_t entries = 0;
  std::uint32_t share_level = 0;  // 2^share_level threads of a block share an entry
};

// Has what FoldTree requires of a folder.
template <ScalarOperator Op>
class EntrywiseFolder {
 public:
  using T = typename Op::Element;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  static constexpr int kBlocksPerMultiprocessor = EntrywiseBlocks(sizeof(State));

  __device__ EntrywiseFolder(const Op& op, const EntrywisePlan& plan)
      : op_(op),
        plan_(plan),
        width_(min(plan.entries, kPartEntries)),
        stretch_(threadIdx.x / width_),
        column_(threadIdx.x % width_) {}

  __device__ std::uint32_t states() const { return plan_.entries; }
  __device__ void Prefetch(const TreeSpan&) const {}

  // Each thread folds its stretch of the span's leaves, or states, of which there may be fewer than threads.
  __device__ __forceinline__ void Fold(const TreeSpan& span, const TreeSpan&) {
    entry_ = span.part * kPartEntries + column_;
    const std::uint32_t present =
        span.are_states ? span.count : ((span.count - 1) >> plan_.tree.leaf_level) + 1;
    const std::uint32_t level = span.level > plan_.share_level ? span.level - plan_.share_level : 0;
    const std::uint32_t begin = stretch_ << level;
    const std::uint32_t end = min(begin + (1u << level), present);
    const bool folds = stretch_ >> plan_.share_level == 0 && begin < present && entry_ < plan_.entries;
    if (folds) {
      state_ = FoldItems((end - begin + kEight - 1) / kEight, [&](std::uint32_t i) {
        return FoldUpToEight(span, begin + i * kEight, min(begin + (i + 1) * kEight, end));
      });
    }
    JoinStretches(folds, ((present - 1) >> level) + 1);
  }

  __device__ __forceinline__ void Write(State* node) const {
    if (stretch_ == 0 && entry_ < plan_.entries) node[entry_] = state_;
  }

 private:
  // Folds up to eight adjacent items in pairs, item by item.
  template <class Item>
  __device__ __forceinline__ State FoldItems(std::uint32_t count, const Item& item) const {
    State waiting[kEightLevel];
    State state;
#pragma unroll 1
    for (std::uint32_t i = 0; i < count; ++i) {
      state = item(i);
      bool waits = false;  // no break below: the loop must unroll for waiting to stay in registers
#pragma unroll
      for (std::uint32_t l = 0; l < kEightLevel; ++l) {
        if (waits || (count - 1) >> l == 0) continue;
        if ((i >> l) % 2 == 1) {
          state = op_.Combine(waiting[l], state);
        } else if (i + 1 < count) {
          waiting[l] = state;
          waits = true;
        }
      }
    }
    return state;
  }

  // Folds leaves, or states, [begin, end) of the span: all eight at once if all of them exist.
  __device__ __forceinline__ State FoldUpToEight(const TreeSpan& span, std::uint32_t begin,
                                                 std::uint32_t end) const {
    const bool full = span.are_states || end << plan_.tree.leaf_level <= span.count;
    if (end - begin < kEight || !full) {
      return FoldItems(end - begin, [&](std::uint32_t i) { return StateOf(span, begin + i); });
    }
    State states[kEight];
    if (span.are_states) {
#pragma unroll
      for (std::uint32_t j = 0; j < kEight; ++j) states[j] = StatesOf(span)[(begin + j) * plan_.entries];
    } else {
      FoldLeaves(span, begin, states);
    }
#pragma unroll
    for (std::uint32_t width = 1; width < kEight; width *= 2) {
#pragma unroll
      for (std::uint32_t j = 0; j < kEight; j += 2 * width) {
        states[j] = op_.Combine(states[j], states[j + width]);
      }
    }
    return states[0];
  }

  // The state of this thread's entry.
  __device__ __forceinline__ const State* StatesOf(const TreeSpan& span) const {
    return reinterpret_cast<const State*>(span.data) + entry_;
  }
  __device__ __forceinline__ const T* ElementsOf(const TreeSpan& span, std::uint32_t leaf) const {
    return reinterpret_cast<const T*>(span.data) + (leaf << plan_.tree.leaf_level) * plan_.entries + entry_;
  }
  __device__ __forceinline__ State Widen(const LeafState& state, const TreeSpan& span,
                                         std::uint32_t leaf) const {
    return op_.Widen(state, (span.first_leaf + leaf) << plan_.tree.leaf_level);
  }

  // The state of a leaf, which is folded in array order and may be short; or a state of the span.
  __device__ __forceinline__ State StateOf(const TreeSpan& span, std::uint32_t leaf) const {
    if (span.are_states) return StatesOf(span)[leaf * plan_.entries];
    const std::uint32_t rest = span.count - (leaf << plan_.tree.leaf_level);
    const std::uint32_t count = min(rest, 1u << plan_.tree.leaf_level);
    const T* const x = ElementsOf(span, leaf);
    LeafState state = op_.Lift(x[0], 0);
#pragma unroll kLoadsInFlight
    for (std::uint32_t i = 1; i < count; ++i) {
      state = op_.Combine(state, op_.Lift(x[i * plan_.entries], i));
    }
    return Widen(state, span, leaf);
  }

  // Eight full leaves side by side, so that many loads are in progress.
  __device__ __forceinline__ void FoldLeaves(const TreeSpan& span, std::uint32_t begin,
                                             State (&states)[kEight]) const {
    const T* const x = ElementsOf(span, begin);
    const std::uint32_t stride = plan_.entries << plan_.tree.leaf_level;
    LeafState folded[kEight];
#pragma unroll
    for (std::uint32_t j = 0; j < kEight; ++j) folded[j] = op_.Lift(x[j * stride], 0);
#pragma unroll kLoadsInFlight
    for (std::uint32_t i = 1; i < 1u << plan_.tree.leaf_level; ++i) {
#pragma unroll
      for (std::uint32_t j = 0; j < kEight; ++j) {
        folded[j] = op_.Combine(folded[j], op_.Lift(x[j * stride + i * plan_.entries], i));
      }
    }
#pragma unroll
    for (std::uint32_t j = 0; j < kEight; ++j) states[j] = Widen(folded[j], span, begin + j);
  }

  // Folds the states of the threads that share an entry, adjacent ones first, into that of the first thread.
  __device__ __forceinline__ void JoinStretches(bool folds, std::uint32_t stretches) {
    if (stretches == 1) return;
    WARPFOLD_SHARED(std::byte, shared, [kEntrywiseThreads * sizeof(State)]);
    auto* const own = reinterpret_cast<State*>(shared) + threadIdx.x;
    if (folds) *own = state_;
    for (std::uint32_t apart = 1; apart < stretches; apart *= 2) {
      __syncthreads();
      if (folds && stretch_ % (2 * apart) == 0 && stretch_ + apart < stretches) {
        state_ = op_.Combine(state_, own[apart * width_]);
        *own = state_;
      }
    }
    __syncthreads();  // before the next span's states take their places
  }

  const Op op_;
  const EntrywisePlan& plan_;
  const std::uint32_t width_;    // entries of a part
  const std::uint32_t stretch_;  // this thread's number among those that share an entry
  const std::uint32_t column_;   // this thread's entry in the part
  std::uint32_t entry_ = 0;
  State state_;
};

template <ScalarOperator Op>
__global__ void __launch_bounds__(kEntrywiseThreads, EntrywiseFolder<Op>::kBlocksPerMultiprocessor)
    EntrywiseKernel(OperatorParameters parameters, Range range, EntrywisePlan plan, Workspace workspace) {
  EntrywiseFolder<Op> folder(MakeOperator<Op>(parameters), plan);
  FoldTree(range, plan.tree, workspace, folder);
}

// Units are large, so that few states go through global memory, but there are some for each of the `blocks`.
inline EntrywisePlan PlanEntrywise(std::uint32_t entries, std::uint64_t entry_bytes, std::uint64_t first_leaf,
                                   std::uint64_t elements, std::uint64_t blocks) {
  EntrywisePlan plan;
  plan.entries = entries;
  while (entries << (plan.share_level + 1) <= kEntrywiseThreads) ++plan.share_level;
  const std::uint32_t parts = (entries + kPartEntries - 1) / kPartEntries;
  const std::uint64_t unit_bytes_at_level_0 = LeafElements(entries * entry_bytes) * entries * entry_bytes;
  // One leaf for each thread is enough to begin with; stretches grow as long as there are units for all
  // blocks.
  std::uint32_t level = std::max(plan.share_level, kSmallestEntrywiseLevel);
  while (level < plan.share_level + kLargestStretchLevel &&
         elements * entries * entry_bytes / (unit_bytes_at_level_0 << level) * parts >
             kEntrywiseUnitsPerBlock * blocks) {
    ++level;
  }
  plan.tree =
      PlanTree(first_leaf, elements, entries * entry_bytes, level, plan.share_level + kEightLevel, parts);
  return plan;
}

template <ScalarOperator Op>
cudaError_t LaunchEntrywise(const OperatorParameters& parameters, const Range& range,
                            const Workspace& workspace, cudaStream_t stream) {
  const std::uint64_t resident =
      std::uint64_t{workspace.multiprocessors} * EntrywiseFolder<Op>::kBlocksPerMultiprocessor;
  const EntrywisePlan plan = PlanEntrywise(range.entries, sizeof(typename Op::Element), range.first_leaf,
                                           range.element_count, resident);
  const std::uint64_t blocks = std::min(plan.tree.tasks(), resident);
  return LaunchKernel<EntrywiseKernel<Op>>({static_cast<unsigned>(blocks), kEntrywiseThreads}, stream,
                                           parameters, range, plan, workspace);
}

}  // namespace warpfold::kernels::cuda
