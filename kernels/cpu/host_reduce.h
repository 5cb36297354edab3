// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces on the calling thread, with a chosen instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/dispatch.h"
#include "kernels/partial_state.h"

namespace warpfold::kernels::cpu {

// The states, node_bytes() of them, of one subtree of which `data` holds all elements that exist.
void ReduceNode(const InstructionSet& isa, const ReductionPlan& reduction, NodePosition position,
                std::span<const std::byte> data, std::span<std::byte> states);

PartialState ReduceRange(const InstructionSet& isa, const ReductionPlan& reduction,
                         std::uint64_t first_element, std::span<const std::byte> data);

}  // namespace warpfold::kernels::cpu
