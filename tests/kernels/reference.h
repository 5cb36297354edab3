// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The canonical order, slowly: docs/canonical-order.md sentence by sentence, as recursions over the
// operators' own functions. This is the oracle for bits. It shares nothing with the backends except the
// operators; it has its own constants, so that a change of the geometry is caught.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "kernels/operators/traits.h"
#include "kernels/partial_state.h"
#include "kernels/types.h"

namespace warpfold::kernels::reference {

struct Result {
  std::vector<NodePosition> nodes;
  std::vector<std::vector<std::byte>> states;  // of the nodes, in order
  std::vector<std::byte> range_state;          // of the smallest node that holds everything
  std::vector<Outcome> outcomes;               // one per entry of the element's shape
};

template <class Op>
typename Op::State Canonical(const Op& op, const typename Op::State& state) {
  if constexpr (HasCanonicalState<Op>) {
    return op.Canonical(state);
  } else {
    return state;
  }
}

// The tree over the part [first, first + count) of an array, for one operator.
template <Operator Op>
class Tree {
 public:
  using Element = typename Op::Element;
  using LeafState = typename Op::LeafState;
  // One per entry of a matrix on which Op acts entry by entry; otherwise one.
  using States = std::vector<typename Op::State>;

  Tree(const Op& op, ElementShape shape, std::uint64_t first, std::span<const std::byte> data)
      : op_(op), entrywise_(AnyElement<Element> && shape.is_matrix()), data_(data), first_(first) {
    width_ = entrywise_ ? shape.entries() : 1;
    const std::uint64_t element_bytes = width_ * sizeof(Element);
    end_ = first + data.size() / element_bytes;
    while (2 * leaf_ * element_bytes <= 4096) leaf_ *= 2;
  }

  // The state of all existing elements in the node; nothing if there are none.
  std::optional<States> Node(NodePosition node) const {
    const std::uint64_t begin = (node.index << node.level) * leaf_;
    if (begin >= end_ || begin + (leaf_ << node.level) <= first_) return std::nullopt;
    if (node.level == 0) return Leaf(begin);
    std::optional<States> left = Node({node.level - 1, 2 * node.index});
    std::optional<States> right = Node({node.level - 1, 2 * node.index + 1});
    if (!left.has_value()) return right;
    if (!right.has_value()) return left;
    for (std::uint32_t i = 0; i < width_; ++i) {
      (*left)[i] = Canonical(op_, op_.Combine((*left)[i], (*right)[i]));
    }
    return left;
  }

  // The smallest node that starts at element 0 and holds the array.
  NodePosition Root() const {
    std::uint32_t level = 0;
    while (leaf_ << level < end_) ++level;
    return {level, 0};
  }

  // The maximal nodes under `node` that hold only leaves of the range, in order.
  void AppendMaximalNodes(NodePosition node, std::vector<NodePosition>* nodes) const {
    const std::uint64_t begin = (node.index << node.level) * leaf_;
    const std::uint64_t end_of_leaves = (end_ + leaf_ - 1) / leaf_ * leaf_;
    if (first_ == end_ || begin >= end_of_leaves || begin + (leaf_ << node.level) <= first_) return;
    if (begin >= first_ && begin + (leaf_ << node.level) <= end_of_leaves) return nodes->push_back(node);
    AppendMaximalNodes({node.level - 1, 2 * node.index}, nodes);
    AppendMaximalNodes({node.level - 1, 2 * node.index + 1}, nodes);
  }

 private:
  // Entry `entry` of the element at `index` in the array.
  Element At(std::uint64_t index, std::uint32_t entry) const {
    Element x;
    std::memcpy(&x, data_.data() + ((index - first_) * width_ + entry) * sizeof(Element), sizeof x);
    return x;
  }

  States Leaf(std::uint64_t begin) const {
    States states;
    for (std::uint32_t entry = 0; entry < width_; ++entry) {
      LeafState leaf;
      if constexpr (Op::kCommutative) {
        leaf = entrywise_ ? Run(begin, begin + leaf_, entry) : Lanes(begin, 0, 1);
      } else {
        leaf = *Runs(begin, 0, NumberOfRuns());
      }
      states.push_back(Canonical(op_, op_.Widen(leaf, begin)));
    }
    return states;
  }

  // Elements [begin, end) from the first to the last; at least the first exists.
  LeafState Run(std::uint64_t begin, std::uint64_t end, std::uint32_t entry) const {
    const auto lift = [&](std::uint64_t index) {
      return op_.Lift(At(index, entry), static_cast<std::uint32_t>(index % leaf_));
    };
    LeafState state = lift(begin);
    for (std::uint64_t i = begin + 1; i < end && i < end_; ++i) state = op_.Combine(state, lift(i));
    return state;
  }

  // Ordered operators: runs [run, run + count) of the leaf, in halves; nothing if none exists.
  std::optional<LeafState> Runs(std::uint64_t begin, std::uint64_t run, std::uint64_t count) const {
    const std::uint64_t elements = leaf_ / NumberOfRuns();
    if (begin + run * elements >= end_) return std::nullopt;
    if (count == 1) return Run(begin + run * elements, begin + (run + 1) * elements, 0);
    const std::optional<LeafState> left = Runs(begin, run, count / 2);
    const std::optional<LeafState> right = Runs(begin, run + count / 2, count / 2);
    return right.has_value() ? op_.Combine(*left, *right) : left;
  }
  std::uint64_t NumberOfRuns() const { return leaf_ < 32 ? leaf_ : 32; }

  // Commutative operators: the state at `lane` after lanes at `distance` have been combined.
  LeafState Lanes(std::uint64_t begin, std::uint32_t lane, std::uint32_t distance) const {
    if (distance == 32) return Lane(begin, lane);
    return op_.Combine(Lanes(begin, lane, 2 * distance), Lanes(begin, lane + distance, 2 * distance));
  }
  LeafState Lane(std::uint64_t begin, std::uint32_t lane) const {
    if constexpr (TwoSweeps<Op>) {
      const auto first = Vectors(
          begin, lane, op_.FirstIdentity(), [this](Element x, std::uint32_t) { return op_.LiftFirst(x); },
          [this](const auto& a, const auto& b) { return op_.CombineFirst(a, b); });
      std::uint32_t present = 0;
      for (std::uint32_t offset = 0; offset < leaf_ && begin + offset < end_; ++offset) {
        present += offset % kColumns / kVector == lane;
      }
      if (present == 0) return op_.LeafIdentity();
      const double center = op_.Center(first, present);
      const auto second = Vectors(
          begin, lane, typename Op::Second{},
          [this, center](Element x, std::uint32_t) { return op_.LiftSecond(x, center); },
          [this](const auto& a, const auto& b) { return op_.CombineSecond(a, b); });
      return op_.Join(first, center, second, present);
    } else {
      return Vectors(
          begin, lane, op_.LeafIdentity(), [this](Element x, std::uint32_t i) { return op_.Lift(x, i); },
          [this](const auto& a, const auto& b) { return op_.Combine(a, b); });
    }
  }
  // The lane's columns, combined in halves.
  template <class S, class Lift, class Combine>
  S Vectors(std::uint64_t begin, std::uint32_t lane, const S& identity, Lift lift, Combine combine) const {
    std::vector<S> columns;
    for (std::uint32_t c = 0; c < kVector; ++c) {
      columns.push_back(Column(begin, lane * kVector + c, identity, lift, combine));
    }
    while (columns.size() > 1) {
      for (std::size_t i = 0; i < columns.size() / 2; ++i) {
        columns[i] = combine(columns[2 * i], columns[2 * i + 1]);
      }
      columns.resize(columns.size() / 2);
    }
    return columns[0];
  }
  // The column's elements from the first row to the last; the identity if there are none.
  template <class S, class Lift, class Combine>
  S Column(std::uint64_t begin, std::uint32_t column, const S& identity, Lift lift, Combine combine) const {
    S state = identity;
    for (std::uint32_t offset = column; offset < leaf_ && begin + offset < end_; offset += kColumns) {
      const S lifted = lift(At(begin + offset, 0), offset);
      state = offset == column ? lifted : combine(state, lifted);
    }
    return state;
  }

  static constexpr std::uint32_t kColumns = 512 / sizeof(Element);
  static constexpr std::uint32_t kVector = 16 / sizeof(Element);
  const Op& op_;
  const bool entrywise_;
  const std::span<const std::byte> data_;
  const std::uint64_t first_;
  std::uint64_t end_ = 0;
  std::uint64_t leaf_ = 1;
  std::uint32_t width_ = 1;
};

template <class States>
std::vector<std::byte> BytesOf(const States& states) {
  const auto bytes = std::as_bytes(std::span(states));
  return {bytes.begin(), bytes.end()};
}

// `data` holds elements first, first + 1, ... of the array.
template <Operator Op>
Result Reduce(const OperatorParameters& parameters, ElementShape shape, std::uint64_t first,
              std::span<const std::byte> data) {
  const Op op = MakeOperator<Op>(parameters);
  const Tree<Op> tree(op, shape, first, data);
  Result result;
  tree.AppendMaximalNodes(tree.Root(), &result.nodes);
  for (const NodePosition node : result.nodes) result.states.push_back(BytesOf(*tree.Node(node)));

  const std::uint32_t width = AnyElement<typename Op::Element> ? shape.entries() : 1;
  const std::uint64_t count = data.size() / (width * sizeof(typename Op::Element));
  const typename Tree<Op>::States identities(width, op.Identity());
  const typename Tree<Op>::States value = tree.Node(tree.Root()).value_or(identities);
  result.range_state = BytesOf(value);
  const std::uint32_t outcomes = [&] {
    if constexpr (HasFields<Op>) return FieldCount<Op>();
    return shape.entries();
  }();
  for (std::uint32_t entry = 0; entry < outcomes; ++entry) {
    if constexpr (HasFields<Op>) {
      result.outcomes.push_back(op.FinishField(value[0], count, entry));
    } else if constexpr (FinishesEntries<Op>) {
      result.outcomes.push_back(op.FinishEntry(value[0], entry));
    } else {
      result.outcomes.push_back(op.Finish(value[entry], count));
    }
  }
  return result;
}

}  // namespace warpfold::kernels::reference
