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
#include "kernels/segments.h"

namespace warpfold::server {

class SegmentResults {
 public:
  explicit SegmentResults(const kernels::Reduction& reduction);

  // Bytes of a segment's values.
  std::size_t row_bytes() const { return layout_.row_bytes(); }

  // A ReduceSegmentsResponse with the layout.
  std::string Layout() const;
  // With results: as many messages as it takes for each to be small enough for clients of gRPC as it is.
  std::vector<std::string> Encode(std::uint64_t first_segment, const kernels::SegmentsResult& result) const;
  // With those of one segment, reduced as an array. Adds the errors that it has to *errors.
  std::string Encode(std::uint64_t segment, const kernels::PartialState& state, std::uint64_t* errors) const;

 private:
  const kernels::Reduction reduction_;
  const kernels::SegmentLayout layout_;
};

}  // namespace warpfold::server
