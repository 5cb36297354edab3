// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The results of segments as messages of segments.proto.
//
// Threads: immutable after construction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "kernels/segment_row.h"
#include "kernels/segments.h"

namespace warpfold::server {

class SegmentResults {
 public:
  // `may_be_empty`: whether some segments may have no elements.
  SegmentResults(const kernels::ReductionPlan& reduction, bool may_be_empty);

  // Bytes of a segment's values, and the maximum for its errors.
  std::size_t row_bytes() const { return layout_.row_bytes(); }
  std::size_t most_bytes_of_segment() const;

  // A ReduceSegmentsResponse with the layout.
  std::string Layout() const;
  // Messages with results: as many as are needed for each to stay below gRPC's default limit. Without values
  // if these are elsewhere.
  std::vector<std::string> Encode(std::uint64_t first_segment, const kernels::SegmentsResult& result,
                                  bool has_values) const;
  // The same for one segment that was reduced as an array.
  std::string Encode(std::uint64_t segment, const kernels::SegmentRow& row, bool has_values) const;
  kernels::SegmentRow RowOf(const kernels::PartialState& state) const;

 private:
  const kernels::ReductionPlan reduction_;
  const kernels::SegmentLayout layout_;
  const std::size_t most_errors_;  // of a segment
};

}  // namespace warpfold::server
