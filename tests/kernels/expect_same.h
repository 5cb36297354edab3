// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Comparisons of all bits.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "tests/kernels/reference.h"

namespace warpfold::kernels {

// How many states operator `op` has in this range: one for each node, or one in all; none if the range is
// empty.
std::size_t StateCount(const PartialState& state, std::size_t op);
// One of these, without the padding between operators.
std::span<const std::byte> OperatorState(const PartialState& state, std::size_t i, std::size_t op);

// Operator `op` of the state has the reference's nodes, states and value.
void ExpectSame(const PartialState& state, std::size_t op, const reference::Result& expected);

// The same range, nodes, and states of all operators.
void ExpectSame(const PartialState& state, const PartialState& expected);

// "int64 -3", "double 0x3ff0000000000000", "uint64 7 at 12", entry after entry, or the reason of an error:
// two texts are equal exactly if the bits are.
std::string Describe(const absl::StatusOr<OperatorValue>& value);

std::string Hex(std::span<const std::byte> bytes);

}  // namespace warpfold::kernels
