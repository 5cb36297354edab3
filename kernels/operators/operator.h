// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What an operator is.
//
// An operator is a monoid: a small struct, the same source for host and device. To add one, write its
// struct in a file of its own here, name it in operator_list.h, and give the proto enum Operator a
// value of the same name; the tables of all backends, the laws and the contract suite follow from that.
//
//   Element, LeafState, State   State travels over the wire: no padding, frozen within v1. LeafState may
//                               be narrower, because a leaf has at most 4096 elements.
//   Lift(element, offset)       the LeafState of one element, `offset` elements into its leaf
//   Combine(left, right)        of two LeafStates, and of two States
//   Widen(leaf, first)          the State of a leaf whose first element has index `first` in the array
//   LeafIdentity(), Identity()  neutral to the bit
//   Canonical(state)            host only, optional: chooses one of several bit patterns of a value (NaN)
//   Finish(state, count)        the result over `count` elements: the same bits on host and device, but over
//                               matrices host only
//   IsPossible(state, first, count)  host only, optional: false if no `count` > 0 elements from index `first`
//                               on have this state; asked of states that come from elsewhere. Those without
//                               it take any: sums and products of floats
//   kCommutative                false: combined strictly in array order
//   kHasIdentity                false: an empty array has no result
//   kScalarsOnly                optional: does not act entry by entry on matrices
//   kAnyOrder                   optional: any order of a leaf's elements makes the same State, even where the
//                               LeafStates differ
//   kApproximate                optional: combining rounds whole numbers, too, so that no law but symmetry
//                               holds to the bit
//   kFields, FinishField(state, count, field)
//                               optional, instead of Finish: several named results
//   kTakesModulus               optional: there may be a modulus, and residues.any() says whether there is
//   kNeutral                    optional: the bits of an element that changes no State beside others, so that
//                               it may stand where a short leaf has none
//   Accumulator, Addend(element)  optional: states do not depend on the order in which elements are combined;
//                               backends add the addends of many elements to one Accumulator instead of
//                               combining LeafStates
//   Append(leaf, element, offset)  optional: Combine(leaf, Lift(element, offset)) for leaf states that are
//   not
//                               the identity, quicker on a GPU; kHostAppends: on a CPU, too
//   kFromTheLeft                optional: the state is that of the first, or last, element whose state is
//                               `present`; backends need not look at the others
//   Reducer                     optional: another operator with the same states that backends run instead
//   SameBytes                   optional: this family's operator over another type of as many bytes, or over
//   its
//                               own, that makes states of the same bytes from elements of the same bytes: a
//                               GPU has kernels for that one only
//
// An operator may have the elements that one lane folds in a leaf swept twice, the second time knowing the
// outcome of the first (TwoSweeps below): LiftFirst, CombineFirst, FirstIdentity; then Center of that and of
// the number of elements; then LiftSecond, CombineSecond, to which Second{} is neutral; and Join makes a
// LeafState of all.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"
#include "kernels/types.h"

namespace warpfold::kernels {

template <class Op>
concept Operator = requires(const Op op, typename Op::Element element, typename Op::LeafState leaf,
                            typename Op::State state, std::uint32_t offset, std::uint64_t first) {
  { Op::kCommutative } -> std::convertible_to<bool>;
  { Op::kHasIdentity } -> std::convertible_to<bool>;
  { op.Lift(element, offset) } -> std::same_as<typename Op::LeafState>;
  { op.Combine(leaf, leaf) } -> std::same_as<typename Op::LeafState>;
  { op.Combine(state, state) } -> std::same_as<typename Op::State>;
  { op.Widen(leaf, first) } -> std::same_as<typename Op::State>;
  { op.LeafIdentity() } -> std::same_as<typename Op::LeafState>;
  { op.Identity() } -> std::same_as<typename Op::State>;
  requires std::is_trivially_copyable_v<typename Op::State>;
};

template <class Op>
concept TwoSweeps = requires {
  typename Op::First;
  typename Op::Second;
};

template <class Op>
concept AccumulatingOperator = Operator<Op> && requires {
  typename Op::Accumulator;
};

// One of PresentElement: the first or the last element that is not ignored.
template <class Op>
concept EndOperator = Operator<Op> && requires {
  { Op::kFromTheLeft } -> std::convertible_to<bool>;
};

template <class Op>
concept AnyOrder = Op::kCommutative && requires {
  requires Op::kAnyOrder;
};

// An operator over scalars, as one that acts entry by entry on matrices too.
template <class Op>
concept ScalarOperator = Operator<Op> && AnyElement<typename Op::Element>;

// Whether a family of operators takes an element type at all: an unsupported pair does not instantiate.
template <template <class, bool> class Family, class T, bool kIgnoreNan>
inline constexpr bool kSupports = requires {
  typename Family<T, kIgnoreNan>::State;
};

template <template <class, int> class Family, class T, int kDimension>
inline constexpr bool kSupportsMatrix = requires {
  typename Family<T, kDimension>::State;
};

template <template <class> class Family, class T>
inline constexpr bool kSupportsPair = requires {
  typename Family<T>::State;
};

template <class Op>
struct SameBytesOfOp {
  using type = Op;
};
template <class Op>
requires requires { typename Op::SameBytes; }
struct SameBytesOfOp<Op> {
  using type = typename Op::SameBytes;
};
template <class Op>
using SameBytesOf = typename SameBytesOfOp<Op>::type;

template <Operator Op>
WARPFOLD_FN typename Op::LeafState AppendTo(const Op& op, const typename Op::LeafState& leaf,
                                            const typename Op::Element& x, std::uint32_t offset) {
  if constexpr (requires { op.Append(leaf, x, offset); }) {
    return op.Append(leaf, x, offset);
  } else {
    return op.Combine(leaf, op.Lift(x, offset));
  }
}

template <class Op>
struct ReducerOfOp {
  using type = Op;
};
template <class Op>
requires requires { typename Op::Reducer; }
struct ReducerOfOp<Op> {
  using type = typename Op::Reducer;
};
template <class Op>
using ReducerOf = typename ReducerOfOp<Op>::type;

template <class Op>
WARPFOLD_FN Op MakeOperator(const OperatorParameters& parameters) {
  if constexpr (std::constructible_from<Op, const OperatorParameters&>) {
    return Op(parameters);
  } else {
    return Op{};
  }
}

}  // namespace warpfold::kernels
