// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One ReduceSegments call. Results are read whenever the call waits for the network, on the same thread, so
// that neither side waits for the other to read. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array_reference.h"
#include "client/calls/reducer.h"
#include "client/calls/retry.h"
#include "client/calls/segment_check.h"
#include "client/segments.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold {

// Checks the responses of a call against the request and against each other, and passes valid results to the
// visitor.
class SegmentAnswer {
 public:
  // The answer to a request of an array of `element_count` elements, cut by `cut`. The references must
  // outlive it.
  SegmentAnswer(const v1::ReductionSpec& spec, const SegmentVisitor& visitor, std::uint64_t element_count,
                const SegmentCut& cut);

  // INTERNAL if this cannot be a response to the request.
  absl::Status Add(grpc::ByteBuffer buffer);
  // The summary. INTERNAL unless all results have come.
  absl::StatusOr<SegmentSummary> Finish() const;

  // Whether the visitor has seen results.
  bool delivered() const { return segment_count_ > 0; }

 private:
  absl::Status AddLayout(const v1::SegmentLayout& layout);
  absl::Status AddResults(const v1::SegmentResults& results);
  absl::Status TakeFailures(const v1::SegmentResults& results);

  const v1::ReductionSpec& spec_;
  const SegmentVisitor& visitor_;
  const SegmentCut& cut_;
  const SegmentCheck check_;
  const std::uint64_t expected_elements_;
  const std::uint64_t expected_segments_;
  std::vector<SegmentColumn> columns_;  // empty until there is a layout
  std::uint64_t segment_count_ = 0;
  std::uint64_t failure_count_ = 0;
  std::optional<v1::SegmentSummary> summary_;
  std::vector<std::uint64_t> values_;
  std::vector<SegmentFailure> failures_;
};

// One attempt at an array that is sent.
absl::StatusOr<SegmentSummary> SendSegments(const ReduceJob& job, const SegmentCut& cut,
                                            const SegmentVisitor& visitor, const Connection& connection,
                                            const Interrupts& interrupts, Attempt* attempt);

// One attempt at an array that the server can read.
absl::StatusOr<SegmentSummary> SendSegmentsReference(const ReduceJob& job, const SegmentCut& cut,
                                                     const ArrayReference& reference,
                                                     const SegmentVisitor& visitor,
                                                     const Connection& connection,
                                                     const Interrupts& interrupts, Attempt* attempt);

}  // namespace warpfold
