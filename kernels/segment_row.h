// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The results of a segment that was reduced as a separate range: for example because it is longer than what a
// slot takes at once.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/partial_state.h"
#include "kernels/segments.h"

namespace warpfold::kernels {

struct SegmentRow {
  std::vector<std::uint64_t> values;  // in the order of columns
  std::vector<SegmentError> errors;   // in the order of operators; all for segment 0
};

// The results of a segment whose state is `state`. `layout` is that of the state's reduction.
SegmentRow RowOfSegment(const SegmentLayout& layout, const PartialState& state);

}  // namespace warpfold::kernels
