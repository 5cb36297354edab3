// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many segments of an array that the server can read, by several calls at once: a connection carries their
// results more slowly than the server has them (docs/adr/0137). Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/array_reference.h"
#include "client/calls/reducer.h"
#include "client/segments.h"

namespace warpfold {

// So many segments go by one call. A caller waits for all results of a part before it sees the first of them.
inline constexpr std::uint64_t kSegmentsOfAPart = 131'072;
// From so many on more than one call is worth its connection.
inline constexpr std::uint64_t kLeastSegmentsInParts = 2 * kSegmentsOfAPart;
inline constexpr int kMostCallsOfSegments = 4;

// Adjacent segments.
struct SegmentPart {
  std::uint64_t first_segment = 0;
  SegmentCut cut;  // refers to the lengths of the whole
  ArrayReference reference;
};

// Parts of kSegmentsOfAPart segments, but for the last one. The cut fits the reference.
std::vector<SegmentPart> CutIntoSegmentParts(const SegmentCut& cut, const ArrayReference& reference,
                                             std::uint64_t element_bytes);

// Has `calls` calls at once, each tried again by itself. The visitor is called on the thread that calls, with
// results in the order of segments. At most two parts for each call wait for it.
absl::StatusOr<SegmentSummary> ReduceSegmentParts(const ReduceJob& job, const std::vector<SegmentPart>& parts,
                                                  const SegmentVisitor& visitor, int calls);

}  // namespace warpfold
