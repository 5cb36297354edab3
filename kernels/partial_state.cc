// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/partial_state.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "kernels/operators/table.h"
#include "proto/error_reasons.h"
#include "proto/error_texts.h"

namespace warpfold::kernels {
namespace {

absl::Status BadState(absl::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, reason::kBadState, message);
}

// Reads and combines the states of one kind of operators: of those that keep a state at each node (by_node),
// or of those that keep one for the range. In a node both lie side by side, the first kind before the second
// (BoundOperator::state_offset); a partial state keeps them apart. The functions below take only the states
// of this kind, one operator's after the other's.
class StateBlock {
 public:
  StateBlock(const ReductionPlan& reduction, bool by_node)
      : reduction_(reduction), by_node_(by_node), offset_(by_node ? 0 : reduction.by_node_bytes()) {}

  void Canonicalize(std::byte* states) const {
    for (const BoundOperator& op : reduction_.operators()) {
      if (op.by_node == by_node_) op.entry->canonicalize(op.states, states + op.state_offset - offset_);
    }
  }

  // Rejects states that no elements [first, first + count) could have given.
  absl::Status Check(const std::byte* states, std::uint64_t first, std::uint64_t count) const {
    const auto operators = reduction_.operators();
    for (std::size_t i = 0; i < operators.size(); ++i) {
      const BoundOperator& op = operators[i];
      if (op.by_node != by_node_) continue;
      const std::byte* const state = states + op.state_offset - offset_;
      if (!op.entry->is_possible(op.parameters, op.states, state, first, count)) {
        return BadState(
            absl::StrCat(reduction_.spec().operators[i], ": no elements have this partial state"));
      }
    }
    return absl::OkStatus();
  }

  // left = left x right.
  void CombineInto(std::byte* left, const std::byte* right) const {
    for (const BoundOperator& op : reduction_.operators()) {
      if (op.by_node != by_node_) continue;
      const std::size_t at = op.state_offset - offset_;
      op.entry->combine(op.parameters, op.states, left + at, right + at, left + at);
      op.entry->canonicalize(op.states, left + at);
    }
  }

 private:
  const ReductionPlan& reduction_;
  const bool by_node_;
  const std::size_t offset_;
};

absl::Status OverflowError(absl::string_view op, bool wraps) {
  // An operator that can wrap was not asked to, otherwise it would have done so.
  const absl::string_view advice = wraps ? "; overflow_policy WRAP would answer it modulo 2^bits" : "";
  return Error(absl::StatusCode::kOutOfRange, reason::kOverflow,
               absl::StrCat(TextOfOverflow(std::string(op)), advice), {{"operator", std::string(op)}});
}

absl::Status EmptyError(absl::string_view op) {
  return Error(absl::StatusCode::kInvalidArgument, reason::kEmptyArray, TextOfNoValue(std::string(op)),
               {{"operator", std::string(op)}});
}

bool SameReduction(const ReductionSpec& a, const ReductionSpec& b) {
  return a.operators == b.operators && a.element_type == b.element_type && a.shape == b.shape &&
         a.ignore_nan == b.ignore_nan && a.modulus == b.modulus && a.algorithm == b.algorithm;
}

}  // namespace

PartialState::PartialState(ReductionPlan reduction, std::uint64_t first_element)
    : reduction_(std::move(reduction)), first_element_(first_element) {}

absl::StatusOr<PartialState> PartialState::Create(ReductionPlan reduction, std::uint64_t first_element,
                                                  std::uint64_t element_count,
                                                  std::span<const NodePosition> nodes,
                                                  std::span<const std::byte> node_states,
                                                  std::span<const std::byte> range_states) {
  if (!reduction.canonical()) {
    return Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader,
                 "algorithm: the states of a named algorithm are not canonical and do not merge",
                 {{"field", "algorithm"}});
  }
  const std::uint64_t leaf = reduction.leaf_elements();
  if (first_element % leaf != 0) return BadState("a partial state starts inside a leaf");
  const std::uint64_t max_elements = kMaxArrayBytes / reduction.element_bytes();
  if (first_element > max_elements || element_count > max_elements - first_element) {
    return BadState("a partial state ends beyond the largest array");
  }
  const std::uint64_t leaf_count = element_count / leaf + (element_count % leaf != 0);
  const std::size_t by_node = reduction.by_node_bytes();
  std::vector<NodePosition> expected;
  if (by_node > 0) expected = MaximalSubtrees(first_element / leaf, leaf_count);
  if (!std::equal(nodes.begin(), nodes.end(), expected.begin(), expected.end())) {
    return BadState("the nodes of a partial state are not the maximal subtrees of its range");
  }
  const std::size_t range_bytes = element_count == 0 ? 0 : reduction.node_bytes() - by_node;
  if (node_states.size() != nodes.size() * by_node || range_states.size() != range_bytes) {
    return BadState("the states of a node, or of the range, are not of the size that its operators have");
  }
  PartialState state(std::move(reduction), first_element);
  state.element_count_ = element_count;
  state.nodes_.assign(nodes.begin(), nodes.end());
  state.node_states_.assign(node_states.begin(), node_states.end());
  state.range_states_.assign(range_states.begin(), range_states.end());
  if (absl::Status status = state.CheckAndCanonicalize(); !status.ok()) return status;
  return state;
}

absl::Status PartialState::CheckAndCanonicalize() {
  const StateBlock at_nodes(reduction_, /*by_node=*/true);
  const StateBlock of_range(reduction_, /*by_node=*/false);
  std::uint64_t first = first_element_;
  std::byte* states = node_states_.data();
  for (const NodePosition node : nodes_) {
    const std::uint64_t count =
        std::min(first_element_ + element_count_ - first, reduction_.leaf_elements() << node.level);
    if (absl::Status status = at_nodes.Check(states, first, count); !status.ok()) return status;
    at_nodes.Canonicalize(states);
    first += count;
    states += reduction_.by_node_bytes();
  }
  if (range_states_.empty()) return absl::OkStatus();
  if (absl::Status status = of_range.Check(range_states_.data(), first_element_, element_count_);
      !status.ok()) {
    return status;
  }
  of_range.Canonicalize(range_states_.data());
  return absl::OkStatus();
}

std::span<const std::byte> PartialState::NodeState(std::size_t op, std::size_t node) const {
  const BoundOperator& bound = reduction_.operators()[op];
  return std::span(node_states_)
      .subspan(node * reduction_.by_node_bytes() + bound.state_offset, bound.state_bytes);
}

std::span<const std::byte> PartialState::RangeState(std::size_t op) const {
  const BoundOperator& bound = reduction_.operators()[op];
  return std::span(range_states_).subspan(bound.state_offset - reduction_.by_node_bytes(), bound.state_bytes);
}

void PartialState::AppendNode(NodePosition position, std::uint64_t element_count,
                              std::span<const std::byte> states) {
  const std::size_t by_node = reduction_.by_node_bytes();
  element_count_ += element_count;
  AppendToTree(position, states.first(by_node));
  AppendToRange(states.subspan(by_node, reduction_.node_bytes() - by_node));
}

void PartialState::AppendToTree(NodePosition position, std::span<const std::byte> states) {
  const std::size_t bytes = states.size();
  if (bytes == 0) return;
  const StateBlock block(reduction_, /*by_node=*/true);
  nodes_.push_back(position);
  node_states_.insert(node_states_.end(), states.begin(), states.end());
  block.Canonicalize(node_states_.data() + node_states_.size() - bytes);
  while (nodes_.size() >= 2) {
    const NodePosition right = nodes_.back();
    const NodePosition left = nodes_[nodes_.size() - 2];
    if (left.level != right.level || left.index % 2 != 0) break;
    std::byte* const left_states = node_states_.data() + node_states_.size() - 2 * bytes;
    block.CombineInto(left_states, left_states + bytes);
    node_states_.resize(node_states_.size() - bytes);
    nodes_.pop_back();
    nodes_.back() = {left.level + 1, left.index / 2};
  }
}

void PartialState::AppendToRange(std::span<const std::byte> states) {
  const StateBlock block(reduction_, /*by_node=*/false);
  if (range_states_.empty()) {
    range_states_.assign(states.begin(), states.end());
    block.Canonicalize(range_states_.data());
  } else {
    block.CombineInto(range_states_.data(), states.data());
  }
}

absl::Status PartialState::Append(const PartialState& right) {
  if (!SameReduction(reduction_.spec(), right.reduction_.spec())) {
    return BadState("partial states of different reductions do not merge");
  }
  if (right.element_count_ == 0) return absl::OkStatus();
  if (right.first_element_ != first_element_ + element_count_) {
    return BadState("a partial state does not start where the one before it ends");
  }
  const std::size_t bytes = reduction_.by_node_bytes();
  for (std::size_t i = 0; i < right.nodes_.size(); ++i) {
    AppendToTree(right.nodes_[i], std::span(right.node_states_).subspan(i * bytes, bytes));
  }
  AppendToRange(right.range_states_);
  element_count_ += right.element_count_;
  return absl::OkStatus();
}

// The state of the whole range. For states at nodes it is that of the smallest complete tree over the range,
// without absent nodes: nodes that are right children fold from the left, then nodes that are left children
// from the right.
std::vector<std::byte> PartialState::Fold(std::size_t op_index) const {
  const BoundOperator& op = reduction_.operators()[op_index];
  std::vector<std::byte> value(op.state_bytes);
  if (element_count_ == 0) {
    op.entry->identity(op.parameters, op.states, value.data());
    return value;
  }
  if (!op.by_node) {
    const std::span<const std::byte> state = RangeState(op_index);
    return {state.begin(), state.end()};
  }
  const auto state = [&](std::size_t node) { return NodeState(op_index, node).data(); };
  // out = left x right, which may be out.
  const auto combine = [&op](const std::byte* left, const std::byte* right, std::byte* out) {
    op.entry->combine(op.parameters, op.states, left, right, out);
    op.entry->canonicalize(op.states, out);
  };
  std::size_t right_children = 0;  // all of them come before the first left child
  while (right_children < nodes_.size() && nodes_[right_children].index % 2 == 1) ++right_children;

  std::size_t i = nodes_.size() - 1;
  if (right_children < nodes_.size()) {
    std::memcpy(value.data(), state(i), op.state_bytes);
    while (i > right_children) combine(state(--i), value.data(), value.data());
    if (right_children == 0) return value;
  }
  std::vector<std::byte> left(state(0), state(0) + op.state_bytes);
  for (std::size_t j = 1; j < right_children; ++j) combine(left.data(), state(j), left.data());
  if (right_children == nodes_.size()) return left;
  combine(left.data(), value.data(), value.data());
  return value;
}

absl::StatusOr<OperatorValue> PartialState::Finish(std::size_t op_index) const {
  const BoundOperator& op = reduction_.operators()[op_index];
  const std::string& name = reduction_.spec().operators[op_index];
  if (element_count_ == 0 && !op.entry->has_identity) return EmptyError(name);
  const std::vector<std::byte> value = Fold(op_index);
  OperatorValue result;
  result.shape = reduction_.spec().shape;
  result.fields = op.entry->fields;
  const std::size_t entries = result.fields.empty() ? result.shape.entries() : result.fields.size();
  for (std::uint32_t entry = 0; entry < entries; ++entry) {
    const Outcome outcome = op.entry->finish(op.parameters, value.data(), element_count_, entry);
    if (outcome.error == Outcome::Error::kOverflow) {
      return OverflowError(name, /*wraps=*/op.entry->never_wraps == nullptr);
    }
    if (outcome.error == Outcome::Error::kEmpty) return EmptyError(name);
    result.entries.push_back(outcome.value);
    if (outcome.index != Outcome::kNoIndex) result.index = outcome.index;
    if (outcome.end_index != Outcome::kNoIndex) result.end_index = outcome.end_index;
  }
  return result;
}

}  // namespace warpfold::kernels
