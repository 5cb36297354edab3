// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One of several callers that load a server: it has its own connections, and makes calls one after the other.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/bench/flags.h"
#include "client/cli/server.h"
#include "client/result.h"
#include "client/segments.h"
#include "client/shared_memory.h"

namespace warpfold::cli {

// Makes a call with this array, which is ignored by methods that have none. Threads: one at a time.
using Caller = std::function<absl::StatusOr<Reduction>(std::span<const std::byte> array)>;

// A server that does not respond is an error, not an endless wait.
inline constexpr absl::Duration kCallTimeout = absl::Minutes(2);

// What the calls compute.
Spec SpecOf(const BenchFlags& flags);

// What is measured for a call that returns segments.
inline absl::StatusOr<Reduction> ReductionOf(const absl::StatusOr<SegmentSummary>& summary) {
  if (!summary.ok()) return summary.status();
  return Reduction{.results = {},
                   .element_count = summary->element_count,
                   .device = summary->device,
                   .timings = summary->timings};
}

// Calls a server that speaks the protocol, through the client library. It connects with the first call.
Caller MakeGrpcCaller(const Server& server, const BenchFlags& flags);

// Calls the server through the classes that are generated from the protocol instead of the client library:
// --method reduce over one stream.
Caller MakeGeneratedCaller(const Server& server, const BenchFlags& flags);

// Whether the calls need memory that is registered with the server.
bool NeedsMemoryConnection(const BenchFlags& flags);

// Calls a server that reads the caller's memory directly. First hands over `memory`, which holds each call's
// array, through `connection`, which is not null if NeedsMemoryConnection. Adds to *handed_over how long that
// took; copying the bytes to where they can be handed over from is not counted.
absl::StatusOr<Caller> MakeReferenceCaller(const Server& server, const BenchFlags& flags,
                                           std::span<const std::byte> memory,
                                           const MemoryConnection* connection, absl::Duration* handed_over);

// Calls the sink kRawSocket. It connects at once.
absl::StatusOr<Caller> MakeRawSocketCaller(const std::string& address, const BenchFlags& flags);

}  // namespace warpfold::cli
