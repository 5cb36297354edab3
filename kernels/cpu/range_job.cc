// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/range_job.h"

#include <algorithm>

#include "kernels/cpu/host_reduce.h"
#include "kernels/cpu/tasks.h"

namespace warpfold::kernels::cpu {

// The maximal subtrees of the range, those above the level of tasks cut down to it.
void RangeJob::Plan(const ReductionPlan& reduction, std::uint64_t first_element,
                    std::span<const std::byte> data) {
  reduction_ = reduction;
  first_element_ = first_element;
  data_ = data;
  tasks_.clear();
  const std::uint32_t most_level = TaskLevel(reduction.leaf_bytes(), reduction.operators().size());
  const std::uint64_t leaf_count = reduction.LeafCount(data.size() / reduction.element_bytes());
  std::uint64_t first_byte = 0;
  for (const NodePosition node : MaximalSubtrees(first_element / reduction.leaf_elements(), leaf_count)) {
    const std::uint32_t level = std::min(node.level, most_level);
    const std::uint32_t cut = node.level - level;
    for (std::uint64_t i = node.index << cut; i < (node.index + 1) << cut; ++i) {
      const std::uint64_t bytes = std::min(reduction.leaf_bytes() << level, data.size() - first_byte);
      tasks_.push_back({.position = {level, i}, .first_byte = first_byte, .bytes = bytes});
      first_byte += bytes;
    }
  }
  states_.resize(tasks_.size() * reduction.node_bytes());
}

void RangeJob::Run(std::size_t i) {
  const Task& task = tasks_[i];
  const std::size_t bytes = reduction_->node_bytes();
  ReduceNode(isa_, *reduction_, task.position, data_.subspan(task.first_byte, task.bytes),
             std::span(states_).subspan(i * bytes, bytes));
}

PartialState RangeJob::Collect() const {
  PartialState state(*reduction_, first_element_);
  const std::size_t bytes = reduction_->node_bytes();
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    state.AppendNode(tasks_[i].position, tasks_[i].bytes / reduction_->element_bytes(),
                     std::span(states_).subspan(i * bytes, bytes));
  }
  return state;
}

}  // namespace warpfold::kernels::cpu
