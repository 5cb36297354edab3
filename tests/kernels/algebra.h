// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An operator's functions over bytes, so that a law is written and compiled once for all operators.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/operators/traits.h"
#include "kernels/types.h"

namespace warpfold::kernels {

using Bytes = std::vector<std::byte>;

struct Algebra {
  std::string name;
  OperatorParameters parameters;
  ElementType type = ElementType::kInt32;  // type of the elements, or of their entries
  std::size_t element_bytes = 0;
  bool commutative = false;
  bool has_identity = false;
  bool associative = false;  // to the bit; otherwise combining rounds
  // Combining rounds whole numbers, too.
  bool approximate = false;

  // Each takes the parameters first. Leaf states may hold padding: compare them widened.
  Bytes (*lift)(const OperatorParameters&, std::span<const std::byte> element, std::uint32_t offset);
  Bytes (*combine_leaves)(const OperatorParameters&, const Bytes& left, const Bytes& right);
  Bytes (*append)(const OperatorParameters&, const Bytes& leaf, std::span<const std::byte> element,
                  std::uint32_t offset);
  // For leaf states, and for states, that count the same number of elements.
  Bytes (*combine_equal_leaves)(const OperatorParameters&, const Bytes& left, const Bytes& right);
  Bytes (*combine_equal)(const OperatorParameters&, const Bytes& left, const Bytes& right);
  Bytes (*moved)(const OperatorParameters&, const Bytes& leaf, std::uint32_t distance);
  Bytes (*leaf_identity)(const OperatorParameters&);
  Bytes (*neutral_element)() = nullptr;  // null for operators that have none
  Bytes (*widen)(const OperatorParameters&, const Bytes& leaf, std::uint64_t first);
  // The resulting states are canonical.
  Bytes (*combine)(const OperatorParameters&, const Bytes& left, const Bytes& right);
  Bytes (*identity)(const OperatorParameters&);
  Outcome::Error (*finish_empty)(const OperatorParameters&);
};

inline std::ostream& operator<<(std::ostream& out, const Algebra& algebra) { return out << algebra.name; }

template <class T>
Bytes ToBytes(const T& x) {
  Bytes bytes(sizeof x);
  std::memcpy(bytes.data(), &x, sizeof x);
  return bytes;
}

template <class T>
T FromBytes(std::span<const std::byte> bytes) {
  T x;
  std::memcpy(&x, bytes.data(), sizeof x);
  return x;
}

template <Operator Op>
Bytes StateBytes(const Op& op, const typename Op::State& state) {
  if constexpr (HasCanonicalState<Op>) {
    return ToBytes(op.Canonical(state));
  } else {
    return ToBytes(state);
  }
}

template <Operator Op>
Outcome::Error FinishEmpty(const OperatorParameters& parameters) {
  const Op op = MakeOperator<Op>(parameters);
  if constexpr (FinishesEntries<Op>) {
    return op.FinishEntry(op.Identity(), 0).error;
  } else if constexpr (HasFields<Op>) {
    return op.FinishField(op.Identity(), 0, 0).error;
  } else {
    return op.Finish(op.Identity(), 0).error;
  }
}

template <Operator Op>
Algebra AlgebraOf(const std::string& name, ElementType type, const OperatorParameters& parameters) {
  using P = OperatorParameters;
  using LeafState = typename Op::LeafState;
  using State = typename Op::State;
  // States travel. A padding byte would be indeterminate here, which no constant expression may be.
  constexpr auto kStateBytes = std::bit_cast<std::array<unsigned char, sizeof(State)>>(State{});
  static_assert(kStateBytes.size() == sizeof(State));
  static_assert(std::is_same_v<State, typename ReducerOf<Op>::State>);

  Algebra a;
  a.name = name;
  a.parameters = parameters;
  a.type = type;
  a.element_bytes = sizeof(typename Op::Element);
  a.commutative = Op::kCommutative;
  a.has_identity = Op::kHasIdentity;
  a.associative = AssociativeOperator<Op>;
  a.approximate = Approximate<Op>;
  a.lift = [](const P& p, std::span<const std::byte> element, std::uint32_t offset) {
    return ToBytes(MakeOperator<Op>(p).Lift(FromBytes<typename Op::Element>(element), offset));
  };
  a.combine_leaves = [](const P& p, const Bytes& left, const Bytes& right) {
    return ToBytes(MakeOperator<Op>(p).Combine(FromBytes<LeafState>(left), FromBytes<LeafState>(right)));
  };
  a.append = [](const P& p, const Bytes& leaf, std::span<const std::byte> element, std::uint32_t offset) {
    return ToBytes(AppendTo(MakeOperator<Op>(p), FromBytes<LeafState>(leaf),
                            FromBytes<typename Op::Element>(element), offset));
  };
  a.combine_equal_leaves = [](const P& p, const Bytes& left, const Bytes& right) {
    return ToBytes(
        CombineEqualStates(MakeOperator<Op>(p), FromBytes<LeafState>(left), FromBytes<LeafState>(right)));
  };
  a.combine_equal = [](const P& p, const Bytes& left, const Bytes& right) {
    const Op op = MakeOperator<Op>(p);
    return StateBytes(op, CombineEqualStates(op, FromBytes<State>(left), FromBytes<State>(right)));
  };
  a.moved = [](const P& p, const Bytes& leaf, std::uint32_t distance) {
    return ToBytes(MovedBy(MakeOperator<Op>(p), FromBytes<LeafState>(leaf), distance));
  };
  if constexpr (HasNeutralElement<Op>) {
    static_assert(std::is_same_v<decltype(Op::kNeutral), const Bits<typename Op::Element>>);
    a.neutral_element = [] { return ToBytes(Op::kNeutral); };
  }
  a.leaf_identity = [](const P& p) { return ToBytes(MakeOperator<Op>(p).LeafIdentity()); };
  a.widen = [](const P& p, const Bytes& leaf, std::uint64_t first) {
    const Op op = MakeOperator<Op>(p);
    return StateBytes(op, op.Widen(FromBytes<LeafState>(leaf), first));
  };
  a.combine = [](const P& p, const Bytes& left, const Bytes& right) {
    const Op op = MakeOperator<Op>(p);
    return StateBytes(op, op.Combine(FromBytes<State>(left), FromBytes<State>(right)));
  };
  a.identity = [](const P& p) { return ToBytes(MakeOperator<Op>(p).Identity()); };
  a.finish_empty = FinishEmpty<Op>;
  return a;
}

}  // namespace warpfold::kernels
