// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An operator is a monoid: an associative Combine with an identity. It is a small struct, compiled from the
// same source for host and device. Its functions are const and stateless. They may call only functions marked
// WARPFOLD_FN or WARPFOLD_LARGE_FN, constexpr functions, and the correctly rounded functions of <cmath>.
//
// See CONTRIBUTING.md for how to add an operator, and docs/ARCHITECTURE.md for the path from the enum to the
// kernel.
//
// The concept below is what kernels need of every operator. The table of operators (table.cc) also needs
// kName, which equals the name of the operator's header, and Finish or one of its replacements, which convert
// a state to a result. traits.h lists the optional members and their defaults.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// Finish(state, count) returns the result over `count` elements; it must return the same bits on host and
// device. Operators with the trait HasFields or FinishesEntries define other functions instead (FinishField,
// FinishEntry).
template <class Op>
concept Operator = requires(const Op op, typename Op::Element element, typename Op::LeafState leaf,
                            typename Op::State state, std::uint32_t offset, std::uint64_t first) {
  // True: Combine(a, b) and Combine(b, a) have the same bits. The canonical order then pairs elements that
  // are not neighbours, and a GPU's lanes may exchange their states and combine them in either order. False:
  // elements are combined strictly in array order.
  { Op::kCommutative } -> std::convertible_to<bool>;
  // Whether Identity() is also the result of an empty array. If false, Identity() is only the neutral state,
  // and reducing an empty array is an error.
  { Op::kHasIdentity } -> std::convertible_to<bool>;
  // The state of one element, `offset` elements into its leaf. A LeafState may be narrower than a State,
  // because a leaf has at most 4,096 elements.
  { op.Lift(element, offset) } -> std::same_as<typename Op::LeafState>;
  // The state of two adjacent ranges; the left one comes first.
  { op.Combine(leaf, leaf) } -> std::same_as<typename Op::LeafState>;
  { op.Combine(state, state) } -> std::same_as<typename Op::State>;
  // The State of a leaf whose first element has index `first` in the array. A State travels over the wire: it
  // has no padding, and its bytes are frozen within v1.
  { op.Widen(leaf, first) } -> std::same_as<typename Op::State>;
  requires std::is_trivially_copyable_v<typename Op::State>;
  // The neutral elements: combining a state with its identity, on either side, must not change any bit of the
  // state.
  { op.LeafIdentity() } -> std::same_as<typename Op::LeafState>;
  { op.Identity() } -> std::same_as<typename Op::State>;
};

// An operator over scalars. Over matrices it acts entry by entry, unless it is one of ScalarsOnly (traits.h).
template <class Op>
concept ScalarOperator = Operator<Op> && AnyElement<typename Op::Element>;

}  // namespace warpfold::kernels
