// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The segments of one Start on the CPU, as tasks for threads to share: many short segments are one task, a
// long segment is several.
//
// Threads: one caller; Run may be called for distinct tasks at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/piece_cursor.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "kernels/segments.h"

namespace warpfold::kernels::cpu {

class SegmentJob {
 public:
  // `values` is memory for results, which must outlive the job.
  SegmentJob(const InstructionSet& isa, std::span<std::uint64_t> values) : isa_(isa), values_(values) {}

  std::uint64_t Capacity(const ReductionPlan& reduction) const {
    return values_.size_bytes() / SegmentLayout(reduction).row_bytes();
  }

  // The bytes of `data` and what the cut refers to must stay until Collect. Short segments that lie in one
  // piece are tasks together.
  void Plan(const ReductionPlan& reduction, const SegmentCut& cut, PieceCursor data);
  std::size_t tasks() const { return tasks_.size(); }
  // How many bytes the tasks before this one have.
  std::uint64_t BytesBefore(std::size_t task) const { return tasks_[task].offset; }
  void Run(std::size_t task);
  // Copies what the tasks from `first` on will read to its place in `staging`: then only that must stay.
  void Stage(std::size_t first, std::byte* staging);
  // To be called once all tasks have run.
  SegmentsResult Collect();

 private:
  // Segments [begin, end), or one subtree of segment `begin` if there is a node.
  struct Task {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  // their place among the bytes of all segments
    std::optional<NodePosition> node = {};
    std::size_t states_offset = 0;
    bool ok = true;  // no result is an error
  };

  void PlanLong(std::uint64_t segment, std::uint64_t bytes, PieceCursor& data);
  void FinishLong(const PartialState& state, std::uint64_t segment);
  SegmentOut OutOf(std::size_t op);

  const InstructionSet& isa_;
  const std::span<std::uint64_t> values_;
  std::vector<std::uint8_t> errors_;  // all 0 between one Collect and the next Plan

  // The input of the current Start, and what it has made of that.
  std::optional<ReductionPlan> reduction_;
  std::optional<SegmentLayout> layout_;
  SegmentCut cut_;
  std::vector<Task> tasks_;
  std::vector<std::byte> states_;  // of subtrees
  bool ok_ = true;
};

}  // namespace warpfold::kernels::cpu
