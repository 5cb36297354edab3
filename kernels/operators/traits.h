// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The optional members of an operator (operator.h has the required ones). Each trait below lists its members
// and says what happens without them. Backends test these traits and never test for a member directly.
//
// Functions are found by their name alone: a member with the right name but other parameters is an error
// where it is called, instead of a member that nobody calls. If a trait has a flag (kCombinesEqual, kAppends,
// kMoves), kernels of an operator that has its function without the flag do not compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/portable.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// --- How leaves are folded --------------------------------------------------------------------------------

// kAnyOrder: any order of a leaf's elements makes the same State, even if the LeafStates differ. Other
// operators combine a leaf's elements in the canonical order.
template <class Op>
concept AnyOrder = Op::kCommutative && requires {
  requires Op::kAnyOrder;
};

// kNeutral: the bits of an element that leaves the State of all others as it is. It may fill places where a
// short leaf has no element. Short leaves of other operators are folded by separate code.
template <class Op>
concept HasNeutralElement = requires {
  Op::kNeutral;
};

// Operators whose elements one lane sweeps twice in a leaf: the second sweep knows the outcome of the first.
// All other operators sweep once, with Lift and Combine. The members, in the order in which they are called:
//   First LiftFirst(element), CombineFirst(First, First), FirstIdentity(): the first sweep
//   double Center(First, count): what the second sweep knows, as the mean (variance)
//   Second LiftSecond(element, center), CombineSecond(Second, Second): the second; Second{} is neutral
//   LeafState Join(First, center, Second, count): the outcome of both
template <class Op>
concept TwoSweeps = requires {
  typename Op::First;
  typename Op::Second;
};

// Extremes: the smallest and the largest element are a part of the state, found by the operator Extremes for
// the member `range` of LeafState. For segments in a GPU's registers, that is done in a separate sweep.
template <class Op>
concept SweepsExtremesApart = requires {
  typename Op::Extremes;
};

// kCombinesEqual, CombineEqual(a, b): Combine(a, b) of states that count equally many elements, as those of
// whole leaves do, in fewer instructions. Operators without it are combined by Combine, and so are the states
// of segments.
template <class Op>
concept CombinesEqual = requires {
  requires Op::kCombinesEqual;
};
template <class Op, class S>
WARPFOLD_FN S CombineEqualStates(const Op& op, const S& a, const S& b) {
  // The flag may be false: for example for variance if NaN is ignored.
  static_assert(
      requires { Op::kCombinesEqual; } || !requires { op.CombineEqual(a, b); },
      "CombineEqual without kCombinesEqual would be called by nobody");
  if constexpr (CombinesEqual<Op>) {
    return op.CombineEqual(a, b);
  } else {
    return op.Combine(a, b);
  }
}

// kAppends, Append(leaf, element, offset): it computes Combine(leaf, Lift(element, offset)) for leaf states
// that Lift and Append have made, in fewer instructions. Operators without it are combined by Combine.
template <class Op>
concept Appends = requires {
  requires Op::kAppends;
};
template <Operator Op>
WARPFOLD_FN typename Op::LeafState AppendTo(const Op& op, const typename Op::LeafState& leaf,
                                            const typename Op::Element& x, std::uint32_t offset) {
  static_assert(
      Appends<Op> || !requires { op.Append(leaf, x, offset); },
      "Append without kAppends would be called by nobody");
  if constexpr (Appends<Op>) {
    return op.Append(leaf, x, offset);
  } else {
    return op.Combine(leaf, op.Lift(x, offset));
  }
}

// kMoves, Moved(leaf, distance), for ordered operators: it makes the leaf state of the same elements,
// `distance` places further on. The states of other ordered operators do not say where their elements are.
template <class Op>
concept Moves = requires {
  requires Op::kMoves;
};
template <Operator Op>
WARPFOLD_FN typename Op::LeafState MovedBy(const Op& op, const typename Op::LeafState& leaf,
                                           std::uint32_t distance) {
  static_assert(
      Moves<Op> || !requires { op.Moved(leaf, distance); }, "Moved without kMoves would be called by nobody");
  if constexpr (Moves<Op>) {
    return op.Moved(leaf, distance);
  } else {
    return leaf;
  }
}

// kHostAppends: Append is faster on a CPU, too. For all other operators the CPU backend combines leaf states.
template <class Op>
concept HostAppends = requires {
  requires Op::kHostAppends;
};
template <Operator Op>
WARPFOLD_FN typename Op::LeafState HostAppendTo(const Op& op, const typename Op::LeafState& leaf,
                                                const typename Op::Element& x, std::uint32_t offset) {
  if constexpr (HostAppends<Op>) {
    return op.Append(leaf, x, offset);
  } else {
    return op.Combine(leaf, op.Lift(x, offset));
  }
}

// Accumulator, Addend(element): states do not depend on the order in which elements are combined. Backends
// add the addends of many elements to one Accumulator instead of combining LeafStates.
template <class Op>
concept AccumulatingOperator = Operator<Op> && requires {
  typename Op::Accumulator;
};

// kFromTheLeft: the state is that of the first (true), or the last (false) element whose state is `present`.
// Backends need not look at the others. It also has kSkipsElements: whether there may be elements whose state
// is not `present`.
template <class Op>
concept EndOperator = Operator<Op> && requires {
  { Op::kFromTheLeft } -> std::convertible_to<bool>;
};

// kRows: elements are square matrices with this many rows; otherwise 0. Large: the same operator for matrices
// of any size.
template <class Op>
constexpr int DimensionOf() {
  if constexpr (requires { Op::kRows; }) {
    return Op::kRows;
  } else {
    return 0;
  }
}

// kScalarsOnly: the operator does not act entry by entry on matrices.
template <class Op>
concept ScalarsOnly = requires {
  requires Op::kScalarsOnly;
};

// --- What states mean -------------------------------------------------------------------------------------

// Canonical(state), for the host: chooses one of several bit patterns of a value (NaN). The states of other
// operators have only one.
template <class Op>
concept HasCanonicalState = requires {
  &Op::Canonical;
};

// AssociativeOperator: adjacent states give the same bits with any bracketing. A range then has one state,
// instead of one at each node of its tree (partial_state.h). Combining is associative to the last bit unless
// it rounds floats. A float that is rounded may also become NaN, of which there are many bit patterns, and so
// every operator that rounds has Canonical, and no other operator does: this one member indicates both. The
// laws test (tests/kernels/) finds an operator for which that is not true.
template <class Op>
concept AssociativeOperator = Operator<Op> && !HasCanonicalState<Op>;

// IsPossible(state, first, count), for the host: false if no `count` > 0 elements from index `first` on have
// this state; it is called for states that come from elsewhere. Operators without it accept any state:
// products of floats.
template <class Op>
concept ChecksStates = requires {
  &Op::IsPossible;
};

// kApproximate: Combine rounds even whole numbers, so that the law tests can check only symmetry bit for bit.
template <class Op>
concept Approximate = requires {
  requires Op::kApproximate;
};

// --- What results are -------------------------------------------------------------------------------------

// kFields, FinishField(state, count, field): several results, which kFields names, instead of one from
// Finish.
template <class Op>
concept HasFields = requires {
  Op::kFields;
};
template <class Op>
constexpr std::uint32_t FieldCount() {
  if constexpr (HasFields<Op>) {
    return sizeof(Op::kFields) / sizeof(Op::kFields[0]);
  } else {
    return 1;
  }
}

// FinishEntry(state, entry), for the host: the result is a matrix, instead of a scalar from Finish.
template <class Op>
concept FinishesEntries = requires {
  &Op::FinishEntry;
};

// --- Which options are followed ---------------------------------------------------------------------------
//
// A request is rejected if it has an option that would not be followed (docs/adr/0064); reduction.cc finds in
// the table what is declared here. The family declares whether NaN can be ignored: Family<T, true> ignores
// it, and families of operators over whole matrices do not.

// kTakesModulus: there may be a modulus, and residues.any() says whether there is. An operator that is made
// without parameters has none. Operators without kTakesModulus take none.
template <class Op>
concept TakesModulus = requires {
  requires Op::kTakesModulus;
};

// ddof: the divisor of the result is the count minus this. Other operators take none.
template <class Op>
concept TakesDdof = requires(const Op op) {
  { op.ddof } -> std::convertible_to<double>;
};

// wrap: whether a sum or product of integers is taken modulo 2^bits.
template <class Op>
concept MayWrap = requires(const Op op) {
  { op.wrap } -> std::convertible_to<bool>;
};

// kWrappedField: of several results, the one that `wrap` concerns. Otherwise there is one result, field 0.
template <MayWrap Op>
constexpr std::uint32_t WrappedField() {
  if constexpr (HasFields<Op>) {
    return Op::kWrappedField;
  } else {
    return 0;
  }
}

// kNeverWraps: the results may overflow and have no value modulo 2^bits; this is the reason, worded for an
// error. Other operators have `wrap`, or do not overflow, and have no reason (null).
template <class Op>
constexpr const char* NeverWraps() {
  if constexpr (requires { Op::kNeverWraps; }) {
    return Op::kNeverWraps;
  } else {
    return nullptr;
  }
}

// --- Whose kernels serve whom -----------------------------------------------------------------------------

// Reducer: another operator with the same states, which backends run instead. Otherwise the operator itself.
// CMake reads the line `using Reducer = ...`, too, and compiles the two as one source
// (kernels/CMakeLists.txt).
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

// SameBytes: this family's operator over another type of as many bytes, or over its own type, that makes the
// same bytes of a state from the same bytes of elements. A GPU has kernels only for that one. Otherwise the
// operator itself.
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

// Whether a family of operators (lists.h) supports an element type at all. Pairs that are not supported are
// never instantiated.
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

// The operator for a request: operators that have a constructor from the parameters are given them.
template <class Op>
WARPFOLD_FN Op MakeOperator(const OperatorParameters& parameters) {
  if constexpr (std::constructible_from<Op, const OperatorParameters&>) {
    return Op(parameters);
  } else {
    return Op{};
  }
}

}  // namespace warpfold::kernels
