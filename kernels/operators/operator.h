// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// An operator is a monoid. It is written as a small struct, in one source for host and device. Its functions
// are constant, keep no state, and call only functions that are marked WARPFOLD_FN or WARPFOLD_LARGE_FN,
// constexpr ones, and those of <cmath> that round correctly.
//
// CONTRIBUTING.md says what adding one takes, docs/ARCHITECTURE.md how it gets from the enum to the kernel.
//
// The concept below is what kernels need of every operator. The table of operators (table.cc) needs its name,
// kName, which is also the snake_case name of its header, and how a state becomes a result: Finish, or what
// takes its place. traits.h names what an operator may have besides, and says what holds for those that do
// not have it.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/portable.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// A result is Finish(state, count): an Outcome over `count` elements with the same bits on host and device.
// Two traits replace it: HasFields and FinishesEntries.
template <class Op>
concept Operator = requires(const Op op, typename Op::Element element, typename Op::LeafState leaf,
                            typename Op::State state, std::uint32_t offset, std::uint64_t first) {
  // True: Combine(a, b) and Combine(b, a) have the same bits. The canonical order then pairs elements that
  // are not neighbours, and a GPU's lanes may exchange their states and combine them in either order. False:
  // elements are combined strictly in array order.
  { Op::kCommutative } -> std::convertible_to<bool>;
  // Whether Identity(), which every operator has, is also an answer: that of an empty array. False: it is
  // neutral, but no array has such a result, and an empty array has none.
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
  // They are neutral: combining a state with one, on either side, changes none of its bits.
  { op.LeafIdentity() } -> std::same_as<typename Op::LeafState>;
  { op.Identity() } -> std::same_as<typename Op::State>;
};

// An operator over scalars. Over matrices it acts entry by entry, unless it is one of ScalarsOnly (traits.h).
template <class Op>
concept ScalarOperator = Operator<Op> && AnyElement<typename Op::Element>;

}  // namespace warpfold::kernels
