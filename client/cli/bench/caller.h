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

// What is measured of a call that answers segments.
inline absl::StatusOr<Reduction> ReductionOf(const absl::StatusOr<SegmentSummary>& summary) {
  if (!summary.ok()) return summary.status();
  return Reduction{
      .element_count = summary->element_count, .device = summary->device, .timings = summary->timings};
}

// Of a server that speaks the protocol. Connects with the first call.
Caller MakeGrpcCaller(const Server& server, const BenchFlags& flags);

// Of a server that reads the caller's memory without a wire: hands `memory` over, of which each call's array
// is a part. `memory_socket` is the server's, where the source needs one. Adds to *handed_over what that
// took, apart from copying the memory to where it is handed over from.
absl::StatusOr<Caller> MakeReferenceCaller(const Server& server, const BenchFlags& flags,
                                           std::span<const std::byte> memory,
                                           const std::string& memory_socket, absl::Duration* handed_over);

// Of the sink kRawSocket. Connects at once.
absl::StatusOr<Caller> MakeRawSocketCaller(const std::string& address, const BenchFlags& flags);

}  // namespace warpfold::cli
