// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Comparisons to the bit.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kernels/partial_state.h"
#include "tests/kernels/reference.h"

namespace warpfold::kernels {

// The states of operator `op` at one node, without the padding between operators.
std::span<const std::byte> OperatorStates(const PartialState& state, std::size_t node, std::size_t op);

// Operator `op` of the state has the reference's nodes, states and value.
void ExpectSame(const PartialState& state, std::size_t op, const reference::Result& expected);

// The same range, nodes, and states of all operators.
void ExpectSame(const PartialState& state, const PartialState& expected);

// "int64 -3", "double 0x3ff0000000000000", "OVERFLOW": equal exactly where the bits are.
std::string Describe(const Scalar& value);

}  // namespace warpfold::kernels
