// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/state_messages.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/wire/operator_names.h"

namespace warpfold::server {
namespace {

absl::Status BadState(absl::string_view what) {
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadState, what);
}

// Puts the states of the operators that have one at each node, or of the others, where they belong in
// PartialState.
absl::Status ReadStates(const kernels::ReductionPlan& reduction, bool by_node,
                        const google::protobuf::RepeatedPtrField<std::string>& states,
                        std::span<std::byte> out) {
  const std::size_t begin = by_node ? 0 : reduction.by_node_bytes();
  const auto operators = reduction.operators();
  int next = 0;
  for (std::size_t op = 0; op < operators.size(); ++op) {
    if (operators[op].by_node != by_node) continue;
    if (next == states.size()) return BadState(absl::StrCat("there is no state of operator ", op));
    const std::string& bytes = states.Get(next++);
    if (bytes.size() != operators[op].state_bytes) {
      return BadState(
          absl::StrCat("a state of operator ", op, " must have ", operators[op].state_bytes, " bytes"));
    }
    std::memcpy(out.data() + operators[op].state_offset - begin, bytes.data(), bytes.size());
  }
  if (next < states.size()) return BadState("there are more states than operators that have one there");
  return absl::OkStatus();
}

// The contents of PartialState.spec: everything in a spec that states depend on.
v1::ReductionSpec SpecOfStates(const kernels::ReductionSpec& spec) {
  v1::ReductionSpec result;
  for (const std::string& name : spec.operators) result.add_operators(OperatorByName(name));
  result.set_element_type(ElementTypeToProto(spec.element_type));
  if (spec.shape.is_matrix()) {
    result.mutable_matrix_shape()->set_rows(spec.shape.rows);
    result.mutable_matrix_shape()->set_columns(spec.shape.columns);
  }
  if (spec.ignore_nan) result.set_nan_policy(v1::NAN_POLICY_IGNORE);
  if (spec.modulus.has_value()) result.set_modulus(*spec.modulus);
  return result;
}

absl::Status CheckSpecOfStates(const kernels::ReductionSpec& spec, const v1::ReductionSpec& made_for) {
  const v1::ReductionSpec wanted = SpecOfStates(spec);
  const auto refused = [](absl::string_view what) {
    return BadState(absl::StrCat("the state is of ", what, " than the spec"));
  };
  if (!std::ranges::equal(made_for.operators(), wanted.operators())) return refused("other operators");
  if (made_for.element_type() != wanted.element_type()) return refused("another element_type");
  const v1::MatrixShape& shape = made_for.matrix_shape();
  if (made_for.has_matrix_shape() != wanted.has_matrix_shape() ||
      shape.rows() != wanted.matrix_shape().rows() || shape.columns() != wanted.matrix_shape().columns()) {
    return refused("another matrix_shape");
  }
  if ((made_for.nan_policy() == v1::NAN_POLICY_IGNORE && IsFloat(spec.element_type)) != spec.ignore_nan) {
    return refused("another nan_policy");
  }
  if (made_for.has_modulus() != wanted.has_modulus() || made_for.modulus() != wanted.modulus()) {
    return refused("another modulus");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<kernels::PartialState> StateFromProto(const kernels::ReductionPlan& reduction,
                                                     const v1::PartialState& state) {
  // This is checked before anything is allocated for them.
  if (state.nodes_size() > kernels::kMaxStateNodes) {
    return BadState(absl::StrCat("a state has at most ", kernels::kMaxStateNodes, " nodes"));
  }
  if (state.has_spec()) {
    if (absl::Status status = CheckSpecOfStates(reduction.spec(), state.spec()); !status.ok()) return status;
  }
  const std::size_t by_node = reduction.by_node_bytes();
  std::vector<kernels::NodePosition> nodes;
  nodes.reserve(state.nodes_size());
  // Value-initialized: the padding between operators' states is zero.
  std::vector<std::byte> node_states(state.nodes_size() * by_node);
  for (const v1::StateNode& node : state.nodes()) {
    const std::span<std::byte> states = std::span(node_states).subspan(nodes.size() * by_node, by_node);
    absl::Status status = ReadStates(reduction, /*by_node=*/true, node.operator_states(), states);
    if (!status.ok()) return status;
    nodes.push_back({.level = node.level(), .index = node.index()});
  }
  std::vector<std::byte> range_states;
  if (state.element_count() > 0) {
    range_states.resize(reduction.node_bytes() - by_node);
    absl::Status status = ReadStates(reduction, /*by_node=*/false, state.range_states(), range_states);
    if (!status.ok()) return status;
  } else if (!state.range_states().empty()) {
    return BadState("an empty range has no states");
  }
  return kernels::PartialState::Create(reduction, state.first_element(), state.element_count(), nodes,
                                       node_states, range_states);
}

v1::PartialState StateToProto(const kernels::PartialState& state) {
  v1::PartialState result;
  *result.mutable_spec() = SpecOfStates(state.reduction().spec());
  result.set_first_element(state.first_element());
  result.set_element_count(state.element_count());
  for (const kernels::NodePosition position : state.nodes()) {
    v1::StateNode& node = *result.add_nodes();
    node.set_level(position.level);
    node.set_index(position.index);
  }
  const auto operators = state.reduction().operators();
  for (std::size_t op = 0; op < operators.size(); ++op) {
    for (int node = 0; operators[op].by_node && node < result.nodes_size(); ++node) {
      const std::span<const std::byte> bytes = state.NodeState(op, node);
      result.mutable_nodes(node)->add_operator_states(bytes.data(), bytes.size());
    }
    if (operators[op].by_node || state.element_count() == 0) continue;
    const std::span<const std::byte> bytes = state.RangeState(op);
    result.add_range_states(bytes.data(), bytes.size());
  }
  return result;
}

}  // namespace warpfold::server
