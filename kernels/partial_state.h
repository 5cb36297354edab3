// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The reduction of a contiguous range of an array, not yet finished, as docs/canonical-order.md defines it.
// An operator that is associative to the last bit has one state for the range. Others have a state at each of
// the range's maximal complete subtrees. Appending adjacent partial states gives the same bits as one pass
// over the union.
//
// The partial state of a reduction with one of the textbook's algorithms is not canonical: every operator has
// one state for the range. Such states are appended in array order, but are not sent anywhere.
//
// Threads: a value type; distinct objects are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/nodes.h"
#include "kernels/reduction.h"

namespace warpfold::kernels {

class PartialState {
 public:
  // The empty range at `first_element`, a multiple of reduction.leaf_elements().
  PartialState(ReductionPlan reduction, std::uint64_t first_element);

  // A state from elsewhere (the wire). `node_states` holds by_node_bytes() for each node that the range must
  // have, in order, and `range_states` the rest of node_bytes(); it is empty if the range is.
  // INVALID_ARGUMENT: BAD_STATE if positions or sizes are not those of the range, or if an operator says that
  // no elements of a node's range, or of the whole range, have such a state; BAD_HEADER if the reduction
  // names an algorithm.
  static absl::StatusOr<PartialState> Create(ReductionPlan reduction, std::uint64_t first_element,
                                             std::uint64_t element_count, std::span<const NodePosition> nodes,
                                             std::span<const std::byte> node_states,
                                             std::span<const std::byte> range_states);

  const ReductionPlan& reduction() const { return reduction_; }
  std::uint64_t first_element() const { return first_element_; }
  std::uint64_t element_count() const { return element_count_; }
  // Empty if no operator has a state at each node.
  std::span<const NodePosition> nodes() const { return nodes_; }
  // The state, at one node, of an operator that has one at each node.
  std::span<const std::byte> NodeState(std::size_t op, std::size_t node) const;
  // The state of an operator that has one for the range. The range must not be empty.
  std::span<const std::byte> RangeState(std::size_t op) const;

  // Appends the next node, which starts where this range ends and covers `element_count` elements. States at
  // nodes combine with their left siblings, the others with everything so far. Used by backends; `states` has
  // node_bytes(), each operator's at its BoundOperator::state_offset. The position has no meaning if the
  // reduction names an algorithm.
  void AppendNode(NodePosition position, std::uint64_t element_count, std::span<const std::byte> states);

  // Appends the range that starts where this one ends; an empty `right` may start anywhere. INVALID_ARGUMENT
  // (BAD_STATE) if it starts elsewhere, or if the reductions differ in element type, shape, operators,
  // algorithm, modulus or treatment of NaN. A range that ends inside a leaf is the array's last: no other
  // starts at its end. After an error this range is as it was.
  absl::Status Append(const PartialState& right);

  // The value of operator `op` over this range. OUT_OF_RANGE (OVERFLOW), INVALID_ARGUMENT (EMPTY_ARRAY).
  absl::StatusOr<OperatorValue> Finish(std::size_t op) const;

 private:
  // Checks states that came from the wire, and gives each NaN in them the bits that our own NaN have.
  absl::Status CheckAndCanonicalize();
  std::vector<std::byte> Fold(std::size_t op) const;
  void AppendToTree(NodePosition position, std::span<const std::byte> states);
  void AppendToRange(std::span<const std::byte> states);

  ReductionPlan reduction_;
  std::uint64_t first_element_ = 0;
  std::uint64_t element_count_ = 0;
  std::vector<NodePosition> nodes_;
  std::vector<std::byte> node_states_;   // by_node_bytes() for each node
  std::vector<std::byte> range_states_;  // the rest of node_bytes(); nothing before the first node
};

}  // namespace warpfold::kernels
