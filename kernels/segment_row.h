// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The results of a segment that was reduced as a range of its own: because it is longer than what a slot
// takes at once, say.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/partial_state.h"
#include "kernels/segments.h"

namespace warpfold::kernels {

struct SegmentRow {
  std::vector<std::uint64_t> values;  // in the order of columns
  std::vector<SegmentError> errors;   // in the order of operators; of segment 0
};

// The results of a segment whose state is `state`. `layout` is that of the state's reduction.
SegmentRow RowOfSegment(const SegmentLayout& layout, const PartialState& state);

}  // namespace warpfold::kernels
