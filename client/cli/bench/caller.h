// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One of several that load a server: connections of its own, and calls one after the other.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/bench/flags.h"
#include "client/cli/server.h"
#include "client/result.h"
#include "client/segments.h"

namespace warpfold::cli {

// Makes a call with this array, which is ignored by methods that have none. Threads: one at a time.
using Caller = std::function<absl::StatusOr<Reduction>(std::span<const std::byte> array)>;

// What the calls compute.
Spec SpecOf(const BenchFlags& flags);

// What is measured of a call that answers segments.
inline absl::StatusOr<Reduction> ReductionOf(const absl::StatusOr<SegmentSummary>& summary) {
  if (!summary.ok()) return summary.status();
  return Reduction{.results = {},
                   .element_count = summary->element_count,
                   .device = summary->device,
                   .timings = summary->timings};
}

// Calls a server that speaks the protocol, by the client library. It connects with the first call.
Caller MakeGrpcCaller(const Server& server, const BenchFlags& flags);

// Calls the server by the classes that are generated from the protocol instead of the client library:
// --method reduce over one stream.
Caller MakeGeneratedCaller(const Server& server, const BenchFlags& flags);

// Calls a server that reads the caller's memory without a wire. First hands over `memory`, which holds each
// call's array, by way of the server's `memory_socket` where the source needs one. Adds to *handed_over how
// long that took; copying the bytes to where they can be handed over from is not counted.
absl::StatusOr<Caller> MakeReferenceCaller(const Server& server, const BenchFlags& flags,
                                           std::span<const std::byte> memory,
                                           const std::string& memory_socket, absl::Duration* handed_over);

// Calls the sink kRawSocket. It connects at once.
absl::StatusOr<Caller> MakeRawSocketCaller(const std::string& address, const BenchFlags& flags);

}  // namespace warpfold::cli
