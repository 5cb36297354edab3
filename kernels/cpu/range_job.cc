// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/range_job.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/cpu/host_reduce.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu/tuning.h"

namespace warpfold::kernels::cpu {

// The maximal subtrees of the range; those above the level of tasks are divided down to it.
void RangeJob::Plan(const ReductionPlan& reduction, std::uint64_t first_element, std::uint64_t byte_count,
                    PieceCursor data) {
  reduction_ = reduction;
  first_element_ = first_element;
  nodes_.clear();
  tasks_.clear();
  const std::uint32_t most_level = TaskLevel(reduction.leaf_bytes(), reduction.operators().size());
  const std::uint64_t leaf_count = reduction.LeafCount(byte_count / reduction.element_bytes());
  for (const NodePosition node : MaximalSubtrees(first_element / reduction.leaf_elements(), leaf_count)) {
    const std::uint32_t level = std::min(node.level, most_level);
    const std::uint32_t cut = node.level - level;
    for (std::uint64_t i = node.index << cut; i < (node.index + 1) << cut; ++i) {
      const std::size_t begin = nodes_.size();
      AddNodes({level, i}, std::min(reduction.leaf_bytes() << level, byte_count - data.offset()), data);
      tasks_.push_back({.begin = begin, .end = nodes_.size()});
    }
  }
  states_.resize(nodes_.size() * reduction.node_bytes());
}

// Leaves and tasks with large states are not divided: if they lie in several pieces, they are copied.
void RangeJob::AddNodes(NodePosition position, std::uint64_t bytes, PieceCursor& data) {
  const bool is_divisible = position.level > 0 && reduction_->node_bytes() <= kMaxDividedNodeBytes;
  if (!is_divisible || data.Contiguous() >= bytes) {
    const std::uint64_t offset = data.offset();
    return nodes_.push_back(
        {.position = position, .data = data.Take(bytes), .bytes = bytes, .offset = offset});
  }
  // Only the last leaf of the range may be short, so that there are more bytes than in the left half.
  const std::uint64_t left = reduction_->leaf_bytes() << (position.level - 1);
  AddNodes({position.level - 1, 2 * position.index}, left, data);
  AddNodes({position.level - 1, 2 * position.index + 1}, bytes - left, data);
}

void RangeJob::Run(std::size_t task) {
  const std::size_t state_bytes = reduction_->node_bytes();
  for (std::size_t i = tasks_[task].begin; i < tasks_[task].end; ++i) {
    ReduceNode(isa_, *reduction_, nodes_[i].position, std::span(nodes_[i].data, nodes_[i].bytes),
               std::span(states_).subspan(i * state_bytes, state_bytes));
  }
}

void RangeJob::Stage(std::size_t first, std::byte* staging) {
  for (std::size_t i = tasks_[first].begin; i < nodes_.size(); ++i) {
    std::byte* const to = staging + nodes_[i].offset;
    if (nodes_[i].data != to) std::memcpy(to, nodes_[i].data, nodes_[i].bytes);
    nodes_[i].data = to;
  }
}

PartialState RangeJob::Collect() const {
  PartialState state(*reduction_, first_element_);
  const std::size_t bytes = reduction_->node_bytes();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    state.AppendNode(nodes_[i].position, nodes_[i].bytes / reduction_->element_bytes(),
                     std::span(states_).subspan(i * bytes, bytes));
  }
  return state;
}

}  // namespace warpfold::kernels::cpu
