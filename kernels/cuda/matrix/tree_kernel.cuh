// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A block's way through the tree, as tree_schedule.h divides it.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/matrix/tree_schedule.h"
#include "kernels/cuda/ticket.cuh"

namespace warpfold::kernels::cuda {

// A block folds a span at once. It consists of elements, or of the states of other spans, which lie one after
// the other. If the span is a complete subtree, these are 2^level leaves, or as many states.
struct TreeSpan {
  const std::byte* data = nullptr;
  std::uint64_t first_leaf = 0;
  std::uint32_t count = 0;  // elements, or states, that exist; 0: nothing to fold
  std::uint32_t level = 0;
  std::uint32_t part = 0;
  bool are_states = false;
};

// The spans of elements that one block folds: the maximal subtrees in the range, unit after unit, and part
// after part. Blocks draw them, because the time that one takes depends on how often the block climbs.
class ElementSpans {
 public:
  // `draws` is a ticket that all blocks of the launch share, and that they leave as they found it.
  __device__ ElementSpans(const Range& range, const TreePlan& plan, unsigned* draws)
      : range_(range), plan_(plan), draws_(draws), task_(blockIdx.x) {
    Enter();
    Draw();
  }

  __device__ bool any() const { return task_ < plan_.tasks(); }
  __device__ std::uint32_t part() const { return static_cast<std::uint32_t>(task_ % plan_.parts); }
  // The next subtree to fold, counted in leaves.
  __device__ Subtree subtree() const { return FirstSubtree(begin_, end_, plan_.unit_level); }
  // The elements of that subtree. There are none after the last one.
  __device__ TreeSpan span() const {
    if (!any()) return {};
    const std::uint64_t skipped = begin_ - plan_.first_leaf;
    const std::uint64_t rest = range_.element_count - (skipped << plan_.leaf_level);
    const std::uint32_t level = subtree().level;
    const std::uint64_t full = std::uint64_t{1} << (level + plan_.leaf_level);
    const auto count = static_cast<std::uint32_t>(rest < full ? rest : full);
    return {range_.data + skipped * plan_.leaf_bytes, begin_, count, level, part(), false};
  }
  // All threads of the block call this.
  __device__ void Advance() {
    begin_ += std::uint64_t{1} << subtree().level;
    if (begin_ < end_) return;
    WARPFOLD_SHARED(unsigned, next);
    if (threadIdx.x == 0) next = drawn_;
    __syncthreads();
    task_ = std::uint64_t{gridDim.x} + next;
    __syncthreads();
    Enter();
    Draw();
  }

 private:
  __device__ void Enter() {
    const TreeRound leaves = {0, plan_.first_leaf, plan_.end_leaf, 0, 0};
    const TreeGroup unit = GroupOf(leaves, plan_.first_unit + task_ / plan_.parts, plan_.unit_level);
    begin_ = unit.begin;
    end_ = unit.end;
  }

  // Draws the task after this one: its number is on its way while this one is folded. Blocks begin with a
  // task and draw until there is none left, altogether once for each task: then the ticket has wrapped to
  // zero.
  __device__ void Draw() {
    if (threadIdx.x == 0 && any()) drawn_ = atomicInc(draws_, static_cast<unsigned>(plan_.tasks() - 1));
  }

  const Range& range_;
  const TreePlan& plan_;
  unsigned* const draws_;
  std::uint64_t task_;  // unit by unit, and part by part
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  unsigned drawn_ = 0;  // of thread 0
};

// Folds the range. All threads of a block call the folder, which has:
//
//   State              what a node has folder.states() of
//   Prefetch(span)     begins to load a span of elements, if it is not empty
//   Fold(span, next)   folds a span; one of elements has been prefetched, and `next` is prefetched
//   Write(node)        writes the outcome's part to a node
template <class Folder>
__device__ __forceinline__ void FoldTree(const Range& range, const TreePlan& plan, const Workspace& workspace,
                                         Folder& folder) {
  using State = typename Folder::State;
  auto* const states = reinterpret_cast<State*>(workspace.partials);
  const auto state_of = [&](const TreeRound& round, std::uint64_t index) {
    return states + (round.base + index - round.begin) * folder.states();
  };
  unsigned* const tickets = workspace.tickets + 1;
  ElementSpans elements(range, plan, workspace.tickets);
  folder.Prefetch(elements.span());
  // The next span is one of elements, or one of the states of a group whose last state this block made.
  bool climbs = false;
  std::uint32_t part = 0;
  TreeRound round;
  TreeGroup group;
  while (climbs || elements.any()) {
    Subtree node;
    TreeSpan span;
    if (climbs) {
      node = FirstSubtree(group.begin, group.end, plan.group_level);
      const auto* const data = reinterpret_cast<const std::byte*>(state_of(round, group.begin));
      span = {data, 0, 1u << node.level, node.level, part, true};
      group.begin += span.count;
    } else {
      node = elements.subtree();
      part = elements.part();
      span = elements.span();
      elements.Advance();
    }
    folder.Fold(span, climbs ? TreeSpan() : elements.span());

    if (node.level < (climbs ? plan.group_level : plan.unit_level)) {
      node.level += climbs ? round.level : 0;
      const std::uint32_t place = PlaceOf(node, plan.first_leaf, plan.end_leaf, workspace.node_count);
      folder.Write(reinterpret_cast<State*>(workspace.nodes + place * workspace.node_stride));
      climbs = climbs && group.begin < group.end;
    } else {
      round = climbs ? NextRound(round, plan.group_level)
                     : FirstRound(plan.first_leaf, plan.end_leaf, plan.unit_level);
      folder.Write(state_of(round, node.index));
      const std::uint64_t number = node.index >> plan.group_level;
      group = GroupOf(round, number, plan.group_level);
      const std::uint64_t ticket = round.tickets + number - (round.begin >> plan.group_level);
      climbs = IsLastOf(tickets + ticket * plan.parts + part, static_cast<unsigned>(group.end - group.begin));
    }
  }
}

}  // namespace warpfold::kernels::cuda
