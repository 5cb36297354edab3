// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The range of one Start on the CPU, as tasks for threads to share: neighbouring subtrees.
//
// Threads: one caller; Run may be called for distinct tasks at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"

namespace warpfold::kernels::cpu {

class RangeJob {
 public:
  explicit RangeJob(const InstructionSet& isa) : isa_(isa) {}

  // Elements from `first_element` on; `data` must stay until Collect.
  void Plan(const ReductionPlan& reduction, std::uint64_t first_element, std::span<const std::byte> data);
  std::size_t tasks() const { return tasks_.size(); }
  void Run(std::size_t task);
  // Once all tasks have run.
  PartialState Collect() const;

 private:
  // A subtree that one thread reduces in one go.
  struct Task {
    NodePosition position;
    std::uint64_t first_byte = 0;
    std::uint64_t bytes = 0;
  };

  const InstructionSet& isa_;

  // What the current Start was given and has made of it.
  std::optional<ReductionPlan> reduction_;
  std::uint64_t first_element_ = 0;
  std::span<const std::byte> data_;
  std::vector<Task> tasks_;
  std::vector<std::byte> states_;  // node_bytes() for each task
};

}  // namespace warpfold::kernels::cpu
