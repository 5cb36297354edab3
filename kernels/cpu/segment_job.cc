// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/segment_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "kernels/cpu/host_reduce.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu/tuning.h"
#include "kernels/segment_row.h"

namespace warpfold::kernels::cpu {

void SegmentJob::Plan(const ReductionPlan& reduction, const SegmentCut& cut, PieceCursor data) {
  reduction_ = reduction;
  layout_.emplace(reduction);
  cut_ = cut;
  ok_ = true;
  tasks_.clear();
  states_.clear();
  errors_.resize(std::max<std::size_t>(errors_.size(), cut.segment_count * reduction.operators().size()));
  const std::uint64_t task_bytes = TaskBytes(reduction.operators().size());
  const std::uint64_t task_segments = TaskSegments(reduction.operators().size());
  std::uint64_t segment = 0;
  while (segment < cut.segment_count) {
    const std::uint64_t first_bytes = cut.LengthOf(segment) * reduction.element_bytes();
    if (first_bytes > 2 * task_bytes) {
      PlanLong(segment++, first_bytes, data);
      continue;
    }
    // Segments that lie in one piece, or a single one that does not.
    const std::uint64_t here = data.Contiguous();
    Task task = {.begin = segment, .end = segment + 1, .bytes = first_bytes, .offset = data.offset()};
    while (task.end < cut.segment_count && task.end - task.begin < task_segments && task.bytes < task_bytes) {
      const std::uint64_t next = cut.LengthOf(task.end) * reduction.element_bytes();
      if (next > 2 * task_bytes || task.bytes + next > here) break;
      task.bytes += next;
      ++task.end;
    }
    task.data = data.Take(task.bytes);
    segment = task.end;
    tasks_.push_back(task);
  }
}

// Subtrees of one level; the last one may be short.
void SegmentJob::PlanLong(std::uint64_t segment, std::uint64_t bytes, PieceCursor& data) {
  const std::uint32_t level = TaskLevel(reduction_->leaf_bytes(), reduction_->operators().size());
  const std::uint64_t whole = reduction_->leaf_bytes() << level;
  for (std::uint64_t i = 0; i * whole < bytes; ++i) {
    const std::uint64_t offset = data.offset();
    const std::uint64_t task_bytes = std::min(whole, bytes - i * whole);
    tasks_.push_back({.begin = segment,
                      .end = segment + 1,
                      .data = data.Take(task_bytes),
                      .bytes = task_bytes,
                      .offset = offset,
                      .node = NodePosition{level, i},
                      .states_offset = states_.size()});
    states_.resize(states_.size() + reduction_->node_bytes());
  }
}

SegmentOut SegmentJob::OutOf(std::size_t op) {
  SegmentOut out;
  out.values = values_.data() + layout_->FirstColumn(op) * cut_.segment_count;
  out.stride = cut_.segment_count;
  out.index_columns = layout_->IndexColumns(op);
  out.errors = errors_.data() + op * cut_.segment_count;
  return out;
}

void SegmentJob::Run(std::size_t i) {
  Task& task = tasks_[i];
  if (task.node.has_value()) {
    ReduceNode(isa_, *reduction_, *task.node, std::span(task.data, task.bytes),
               std::span(states_).subspan(task.states_offset, reduction_->node_bytes()));
    return;
  }
  CpuSegments segments;
  segments.data = task.data;
  segments.begin = task.begin;
  segments.end = task.end;
  segments.length = cut_.length;
  segments.lengths = cut_.lengths.empty() ? nullptr : cut_.lengths.data();
  const int type = IndexOf(reduction_->spec().element_type);
  const int ignores_nan = reduction_->spec().ignore_nan ? 1 : 0;
  for (std::size_t op = 0; op < reduction_->operators().size(); ++op) {
    const BoundOperator& bound = reduction_->operators()[op];
    const SegmentsFunction reduce = isa_.rows[bound.entry->family]->segments[type][ignores_nan];
    task.ok = reduce(bound.parameters, segments, OutOf(op)) && task.ok;
  }
}

void SegmentJob::Stage(std::size_t first, std::byte* staging) {
  for (std::size_t i = first; i < tasks_.size(); ++i) {
    Task& task = tasks_[i];
    std::byte* const to = staging + task.offset;
    if (task.bytes > 0 && task.data != to) std::memcpy(to, task.data, task.bytes);
    task.data = to;
  }
}

void SegmentJob::FinishLong(const PartialState& state, std::uint64_t segment) {
  const SegmentRow row = RowOfSegment(*layout_, state);
  for (std::size_t column = 0; column < row.values.size(); ++column) {
    values_[column * cut_.segment_count + segment] = row.values[column];
  }
  for (const SegmentError& error : row.errors) {
    errors_[error.op * cut_.segment_count + segment] = static_cast<std::uint8_t>(error.error);
  }
  ok_ = ok_ && row.errors.empty();
}

SegmentsResult SegmentJob::Collect() {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    ok_ = ok_ && tasks_[i].ok;
    if (!tasks_[i].node.has_value()) continue;
    PartialState state(*reduction_, 0);
    const std::uint64_t segment = tasks_[i].begin;
    std::size_t end = i;
    for (; end < tasks_.size() && tasks_[end].node.has_value() && tasks_[end].begin == segment; ++end) {
      state.AppendNode(*tasks_[end].node, tasks_[end].bytes / reduction_->element_bytes(),
                       std::span(states_).subspan(tasks_[end].states_offset, reduction_->node_bytes()));
    }
    FinishLong(state, segment);
    i = end - 1;
  }
  SegmentsResult result;
  result.segment_count = cut_.segment_count;
  result.values = values_.first(layout_->columns().size() * cut_.segment_count);
  if (!ok_) {
    const std::size_t flags = reduction_->operators().size() * cut_.segment_count;
    result.errors = CollectErrors(std::span(errors_).first(flags), cut_.segment_count);
    std::fill_n(errors_.begin(), flags, std::uint8_t{0});
  }
  return result;
}

}  // namespace warpfold::kernels::cpu
