// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The range of one Start on the CPU, as tasks for threads to share: neighbouring subtrees. A subtree whose
// bytes lie in several pieces is divided into the largest ones that lie in one, if its states are small.
//
// Threads: one caller; Run may be called for distinct tasks at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/piece_cursor.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"

namespace warpfold::kernels::cpu {

class RangeJob {
 public:
  explicit RangeJob(const InstructionSet& isa) : isa_(isa) {}

  // Plans the `byte_count` bytes of the cursor, which are elements from `first_element` on. They must stay
  // until Collect.
  void Plan(const ReductionPlan& reduction, std::uint64_t first_element, std::uint64_t byte_count,
            PieceCursor data);
  std::size_t tasks() const { return tasks_.size(); }
  // How many bytes the tasks before this one have.
  std::uint64_t BytesBefore(std::size_t task) const { return nodes_[tasks_[task].begin].offset; }
  void Run(std::size_t task);
  // Copies what the tasks from `first` on will read to its place in `staging`: then only that must stay.
  void Stage(std::size_t first, std::byte* staging);
  // To be called once all tasks have run.
  PartialState Collect() const;

 private:
  // A subtree whose bytes lie one after the other, and its place among the bytes of the range.
  struct Node {
    NodePosition position;
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
  };
  // Nodes [begin, end), which one thread reduces in one go.
  struct Task {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void AddNodes(NodePosition position, std::uint64_t bytes, PieceCursor& data);

  const InstructionSet& isa_;

  // The input of the current Start, and what it has made of that.
  std::optional<ReductionPlan> reduction_;
  std::uint64_t first_element_ = 0;
  std::vector<Node> nodes_;
  std::vector<Task> tasks_;
  std::vector<std::byte> states_;  // node_bytes() for each node
};

}  // namespace warpfold::kernels::cpu
