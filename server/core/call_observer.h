// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What observers (the log, the metrics, the status page) are told about calls. The core tells them, but does
// not know how they store or show it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/reduction.h"
#include "server/core/trace_context.h"

namespace warpfold::server {

// A call in progress. Constant except for the bytes, which the shard's thread writes and any thread may read.
struct LiveCall {
  std::string method;    // its last part, such as "Reduce", or "unknown": not the client's text
  std::string peer;      // "ipv4:192.0.2.1:50123"
  std::string identity;  // who calls, as allow_list.h has it
  std::optional<TraceContext> trace;
  absl::Time begin;                      // by the service's clock
  std::atomic<std::uint64_t> bytes = 0;  // of the array, so far
};

// Where the time of a reduction went; none for a stage that did not occur. They overlap: while bytes are
// received, others are reduced.
struct StageTimes {
  std::optional<absl::Duration> queue = std::nullopt;    // waiting for a slot, even if there was one at once
  std::optional<absl::Duration> receive = std::nullopt;  // from the header to the commit or the failure
  std::optional<absl::Duration> copy = std::nullopt;     // to the device
  std::optional<absl::Duration> kernel = std::nullopt;   // reducing
};

// A call that has been answered.
struct CallRecord {
  std::string method;      // as LiveCall's
  std::string peer;        // likewise
  std::string identity;    // likewise
  std::string request_id;  // the client's, printable
  std::optional<TraceContext> trace;
  absl::Status status;
  std::uint64_t bytes = 0;  // of array data
  absl::Duration took;
  // Known for a call that reduces or merges, once its header, or its spec, has been accepted.
  std::optional<kernels::ReductionPlan> reduction;
  std::optional<kernels::ElementType> put_type;  // of the array of a PutArray, once it has been accepted
  std::optional<StageTimes> stages;
};

// Threads: the functions are called on the threads of all shards, at the same time. They must not block.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A call has come.
  virtual void OnBegin(const std::shared_ptr<const LiveCall>& call) = 0;
  // It has been answered. Each begin has one end.
  virtual void OnEnd(const std::shared_ptr<const LiveCall>& call, const CallRecord& record) = 0;
};

}  // namespace warpfold::server
