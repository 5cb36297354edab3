// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's functions for one operator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/operators/rows.h"
#include "kernels/segment_out.h"
#include "kernels/types.h"

namespace warpfold::kernels::cpu {

// Reduces the subtree of `count` > 0 elements, the first of which has index `first`, and writes its state. A
// subtree that is not complete must be the end of the array. `entries`: the number in each matrix; 1 for
// scalars.
using SubtreeFunction = void (*)(const OperatorParameters& parameters, std::uint32_t entries,
                                 const std::byte* data, std::uint64_t count, std::uint64_t first,
                                 std::byte* out);

// Segments [begin, end), one after the other from `data` on.
struct CpuSegments {
  const std::byte* data = nullptr;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t length = 0;                // elements of each, if `lengths` is null
  const std::uint64_t* lengths = nullptr;  // by segment
};
// Reduces them and writes their results; false if any of the results is an error.
using SegmentsFunction = bool (*)(const OperatorParameters& parameters, const CpuSegments& segments,
                                  const SegmentOut& out);

struct Row : FunctionRow<SubtreeFunction> {
  std::array<std::array<SegmentsFunction, 2>, kElementTypeCount> segments{};  // by type and ignore_nan
};

}  // namespace warpfold::kernels::cpu
