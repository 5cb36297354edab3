// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/host_reduce.h"

#include <algorithm>
#include <vector>

#include "kernels/backend.h"

namespace warpfold::kernels {
namespace cpu {

void ReduceNode(const InstructionSet& isa, const ReductionPlan& reduction, NodePosition position,
                std::span<const std::byte> data, std::span<std::byte> states) {
  const std::uint64_t first = (position.index << position.level) * reduction.leaf_elements();
  const ReductionSpec& spec = reduction.spec();
  for (const BoundOperator& op : reduction.operators()) {
    const SubtreeFunction reduce = isa.rows[op.entry->reducer]->For(*op.entry, spec.element_type, spec.shape);
    reduce(op.parameters, spec.shape.entries(), data.data(), data.size() / reduction.element_bytes(), first,
           states.data() + op.state_offset);
  }
}

PartialState ReduceRange(const InstructionSet& isa, const ReductionPlan& reduction,
                         std::uint64_t first_element, std::span<const std::byte> data) {
  PartialState state(reduction, first_element);
  std::vector<std::byte> states(reduction.node_bytes());
  const std::uint64_t leaf_count = reduction.LeafCount(data.size() / reduction.element_bytes());
  for (const NodePosition node : MaximalSubtrees(first_element / reduction.leaf_elements(), leaf_count)) {
    const std::uint64_t bytes = std::min<std::uint64_t>(data.size(), reduction.leaf_bytes() << node.level);
    ReduceNode(isa, reduction, node, data.first(bytes), states);
    state.AppendNode(node, bytes / reduction.element_bytes(), states);
    data = data.subspan(bytes);
  }
  return state;
}

}  // namespace cpu

// Instruction sets other than the best one are for tests, which call ReduceRange.
PartialState ReduceOnHost(const ReductionPlan& reduction, std::uint64_t first_element,
                          std::span<const std::byte> data) {
  return cpu::ReduceRange(cpu::BestInstructionSet(), reduction, first_element, data);
}

}  // namespace warpfold::kernels
