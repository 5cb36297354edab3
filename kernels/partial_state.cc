// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/partial_state.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/geometry.h"
#include "kernels/operators/table.h"

namespace warpfold::kernels {
namespace {

absl::Status BadState(absl::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_STATE", message);
}

void CanonicalizeNode(const Reduction& reduction, std::byte* states) {
  for (const BoundOperator& op : reduction.operators()) {
    op.entry->canonicalize(op.states, states + op.state_offset);
  }
}

// Refuses states that no elements [first, first + count) could have given.
absl::Status CheckNode(const Reduction& reduction, const std::byte* states, std::uint64_t first,
                       std::uint64_t count) {
  const auto operators = reduction.operators();
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const BoundOperator& op = operators[i];
    if (!op.entry->is_possible(op.parameters, op.states, states + op.state_offset, first, count)) {
      return BadState(absl::StrCat(reduction.spec().operators[i], ": no elements have this partial state"));
    }
  }
  return absl::OkStatus();
}

// into = left x right, for all operators of one node.
void CombineNodes(const Reduction& reduction, const std::byte* left, const std::byte* right,
                  std::byte* into) {
  for (const BoundOperator& op : reduction.operators()) {
    op.entry->combine(op.parameters, op.states, left + op.state_offset, right + op.state_offset,
                      into + op.state_offset);
    op.entry->canonicalize(op.states, into + op.state_offset);
  }
}

absl::Status OverflowError(absl::string_view op) {
  // Of what wraps it was not asked to wrap, or else it would have.
  const absl::string_view advice =
      op == "max_subarray_sum" ? "" : "; overflow_policy WRAP would answer it modulo 2^bits";
  return Error(absl::StatusCode::kOutOfRange, "OVERFLOW",
               absl::StrCat(op, ": the exact value does not fit 64 bits", advice),
               {{"operator", std::string(op)}});
}

absl::Status EmptyError(absl::string_view op) {
  return Error(absl::StatusCode::kInvalidArgument, "EMPTY_ARRAY",
               absl::StrCat(op, " of no elements: this operator has no identity"),
               {{"operator", std::string(op)}});
}

bool SameArray(const ReductionSpec& a, const ReductionSpec& b) {
  return a.operators == b.operators && a.element_type == b.element_type && a.shape == b.shape &&
         a.ignore_nan == b.ignore_nan && a.modulus == b.modulus && a.algorithm == b.algorithm;
}

}  // namespace

std::vector<NodePosition> MaximalSubtrees(std::uint64_t first_leaf, std::uint64_t leaf_count) {
  std::vector<NodePosition> left;
  std::vector<NodePosition> right;
  // Level by level, nodes [begin, end) remain; one that is not its sibling's partner stays behind.
  std::uint64_t begin = first_leaf;
  std::uint64_t end = first_leaf + leaf_count;
  for (std::uint32_t level = 0; begin < end; ++level, begin /= 2, end /= 2) {
    if (begin % 2 == 1) left.push_back({level, begin++});
    if (begin < end && end % 2 == 1) right.push_back({level, --end});
  }
  left.insert(left.end(), right.rbegin(), right.rend());
  return left;
}

PartialState::PartialState(Reduction reduction, std::uint64_t first_element)
    : reduction_(std::move(reduction)), first_element_(first_element) {}

absl::StatusOr<PartialState> PartialState::Create(Reduction reduction, std::uint64_t first_element,
                                                  std::uint64_t element_count,
                                                  std::span<const NodePosition> nodes,
                                                  std::span<const std::byte> states) {
  if (!reduction.canonical()) {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_HEADER",
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
  const std::vector<NodePosition> expected = MaximalSubtrees(first_element / leaf, leaf_count);
  if (!std::equal(nodes.begin(), nodes.end(), expected.begin(), expected.end())) {
    return BadState("the nodes of a partial state are not the maximal subtrees of its range");
  }
  if (states.size() != nodes.size() * reduction.node_bytes()) {
    return BadState("a node's states are not of the size that its operators have");
  }
  PartialState state(std::move(reduction), first_element);
  state.element_count_ = element_count;
  state.nodes_.assign(nodes.begin(), nodes.end());
  state.states_.assign(states.begin(), states.end());
  std::uint64_t first = first_element;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::byte* const node_states = state.states_.data() + i * state.reduction_.node_bytes();
    const std::uint64_t count = std::min(first_element + element_count - first, leaf << nodes[i].level);
    if (absl::Status status = CheckNode(state.reduction_, node_states, first, count); !status.ok()) {
      return status;
    }
    // A stranger's NaN may have any bits.
    CanonicalizeNode(state.reduction_, node_states);
    first += count;
  }
  return state;
}

std::span<const std::byte> PartialState::NodeStates(std::size_t node) const {
  return std::span(states_).subspan(node * reduction_.node_bytes(), reduction_.node_bytes());
}

void PartialState::AppendNode(NodePosition position, std::uint64_t element_count,
                              std::span<const std::byte> states) {
  const std::size_t bytes = reduction_.node_bytes();
  if (!reduction_.canonical()) return AppendWhole(element_count, states.first(bytes));
  element_count_ += element_count;
  nodes_.push_back(position);
  states_.insert(states_.end(), states.begin(), states.begin() + bytes);
  CanonicalizeNode(reduction_, states_.data() + states_.size() - bytes);
  while (nodes_.size() >= 2) {
    const NodePosition right = nodes_.back();
    const NodePosition left = nodes_[nodes_.size() - 2];
    if (left.level != right.level || left.index % 2 != 0) break;
    std::byte* const left_states = states_.data() + states_.size() - 2 * bytes;
    CombineNodes(reduction_, left_states, left_states + bytes, left_states);
    states_.resize(states_.size() - bytes);
    nodes_.pop_back();
    nodes_.back() = {left.level + 1, left.index / 2};
  }
}

void PartialState::AppendWhole(std::uint64_t element_count, std::span<const std::byte> states) {
  element_count_ += element_count;
  if (nodes_.empty()) {
    nodes_.push_back({});
    states_.assign(states.begin(), states.end());
    CanonicalizeNode(reduction_, states_.data());
  } else {
    CombineNodes(reduction_, states_.data(), states.data(), states_.data());
  }
}

absl::Status PartialState::Append(const PartialState& right) {
  if (!SameArray(reduction_.spec(), right.reduction_.spec())) {
    return BadState("partial states of different reductions do not merge");
  }
  if (right.element_count_ == 0) return absl::OkStatus();
  if (right.first_element_ != first_element_ + element_count_) {
    return BadState("a partial state does not start where the one before it ends");
  }
  if (!reduction_.canonical()) {
    AppendWhole(right.element_count_, right.states_);
    return absl::OkStatus();
  }
  const std::uint64_t end = right.element_count_;
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < right.nodes_.size(); ++i) {
    const NodePosition node = right.nodes_[i];
    const std::uint64_t elements = std::min(end - done, reduction_.leaf_elements() << node.level);
    AppendNode(node, elements, right.NodeStates(i));
    done += elements;
  }
  return absl::OkStatus();
}

// The value of the smallest complete tree over the range, absent nodes left out: nodes that are right
// children fold from the left, then nodes that are left children from the right.
std::vector<std::byte> PartialState::FoldNodes() const {
  const std::size_t bytes = reduction_.node_bytes();
  std::vector<std::byte> value(bytes);
  if (nodes_.empty()) {
    for (const BoundOperator& op : reduction_.operators()) {
      op.entry->identity(op.parameters, op.states, value.data() + op.state_offset);
    }
    return value;
  }
  const auto state = [&](std::size_t i) { return states_.data() + i * bytes; };
  std::size_t lefts = 0;  // how many nodes, from the start, are right children
  while (lefts < nodes_.size() && nodes_[lefts].index % 2 == 1) ++lefts;

  std::size_t i = nodes_.size() - 1;
  if (lefts < nodes_.size()) {
    std::memcpy(value.data(), state(i), bytes);
    while (i > lefts) CombineNodes(reduction_, state(--i), value.data(), value.data());
    if (lefts == 0) return value;
  }
  std::vector<std::byte> left(state(0), state(0) + bytes);
  for (std::size_t j = 1; j < lefts; ++j) CombineNodes(reduction_, left.data(), state(j), left.data());
  if (lefts == nodes_.size()) return left;
  CombineNodes(reduction_, left.data(), value.data(), value.data());
  return value;
}

absl::StatusOr<OperatorValue> PartialState::Finish(std::size_t op_index) const {
  const BoundOperator& op = reduction_.operators()[op_index];
  const std::string& name = reduction_.spec().operators[op_index];
  if (element_count_ == 0 && !op.entry->has_identity) return EmptyError(name);
  const std::vector<std::byte> value = FoldNodes();
  OperatorValue result;
  result.shape = reduction_.spec().shape;
  result.fields = op.entry->fields;
  const std::size_t entries = result.fields.empty() ? result.shape.entries() : result.fields.size();
  for (std::uint32_t entry = 0; entry < entries; ++entry) {
    const Outcome outcome =
        op.entry->finish(op.parameters, value.data() + op.state_offset, element_count_, entry);
    if (outcome.error == Outcome::Error::kOverflow) return OverflowError(name);
    if (outcome.error == Outcome::Error::kEmpty) return EmptyError(name);
    result.entries.push_back(outcome.value);
    if (outcome.index != Outcome::kNoIndex) result.index = outcome.index;
    if (outcome.end_index != Outcome::kNoIndex) result.end_index = outcome.end_index;
  }
  return result;
}

}  // namespace warpfold::kernels
