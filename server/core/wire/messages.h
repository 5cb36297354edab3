// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Translates between the messages of the proto and the types of kernels/. Data from the wire is untrusted and
// is checked here or by the kernels' own Create functions.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "server/core/clock.h"
#include "server/core/references/memory_registry.h"
#include "server/core/references/results_memory.h"
#include "warpfold/v1/reduction.pb.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold::server {

// INVALID_ARGUMENT (BAD_HEADER, UNSUPPORTED_TYPE, UNSUPPORTED_ALGORITHM), UNIMPLEMENTED (UNKNOWN_OPERATOR,
// UNSUPPORTED_ALGORITHM).
absl::StatusOr<kernels::ReductionPlan> PlanFromProto(const v1::ReductionSpec& spec);

// INVALID_ARGUMENT (BAD_HEADER). `shape` may be null: scalars.
absl::StatusOr<ElementLayout> LayoutFromProto(v1::ElementType type, const v1::MatrixShape* shape);

// If the server reads the array from memory, nothing is received, and so nothing is counted or checksummed:
// INVALID_ARGUMENT (BAD_HEADER) if the header announces that.
absl::Status CheckNoStream(bool has_count, bool with_crc32c);
// The memory in which the referenced array lies, in use as long as there is a copy of the result. `clock`
// must outlive these copies. NOT_FOUND (UNKNOWN_MEMORY); INVALID_ARGUMENT (BAD_HEADER) unless the elements
// lie within the memory, and are of its kind.
absl::StatusOr<std::shared_ptr<const NamedMemory>> FindReferenced(const MemoryRegistry& memories,
                                                                  const v1::ArrayReference& reference,
                                                                  const kernels::ReductionPlan& reduction,
                                                                  const Clock& clock);

// Where the results of `segment_count` segments go, each of `row_bytes`. Errors as above: BAD_HEADER unless
// the memory is writable and has room for all of them. RESOURCE_EXHAUSTED (TOO_MANY_REDUCTIONS) while
// results of another call are written there.
absl::StatusOr<ResultsMemory> FindResultsMemory(const MemoryRegistry& memories,
                                                const v1::SegmentResultsReference& reference,
                                                std::size_t row_bytes, std::uint64_t segment_count,
                                                const Clock& clock);

// Writes the values of `state` into `reduction`, and the state itself if `return_state`. An operator without
// a value (empty array, overflow) gets an error instead; if none has a value, and no state was requested, the
// first operator's error is returned.
absl::Status FillReduction(const kernels::PartialState& state, bool return_state, v1::Reduction* reduction);

}  // namespace warpfold::server
