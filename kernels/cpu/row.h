// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's functions for one operator: the same table shape as operators/table.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace warpfold::kernels::cpu {

// Reduces `count` > 0 elements, the subtree of `level` whose first element has index `first`, and writes
// its state. A short subtree must be the end of the array. `entries`: of each matrix, 1 for scalars.
using SubtreeFunction = void (*)(const OperatorParameters& parameters, std::uint32_t entries,
                                 const std::byte* data, std::uint64_t count, std::uint64_t first,
                                 std::uint32_t level, std::byte* out);

struct Row {
  std::array<std::array<SubtreeFunction, 2>, kElementTypeCount> scalar{};  // by type and ignore_nan
  std::array<std::array<SubtreeFunction, 2>, kElementTypeCount> entrywise{};
  std::array<std::array<SubtreeFunction, kWholeShapes>, kElementTypeCount> whole{};
};

}  // namespace warpfold::kernels::cpu
