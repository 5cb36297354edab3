// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array that can be sent again: on one stream or on several, with retries. Internal.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/array.h"
#include "client/calls/array_stream.h"
#include "client/calls/lent_memory.h"
#include "client/calls/retry.h"
#include "client/calls/stripes.h"
#include "client/connections/connection.h"
#include "client/connections/targets.h"
#include "client/options.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

struct SliceSource {
  // Bytes [offset, offset + size) of the array as a slice that owns its bytes or is lent by `memory`. Called
  // from several threads.
  std::function<grpc::Slice(std::uint64_t offset, std::size_t size, LentMemory& memory)> slice;
  // Whether the lent memory can be read to its end. A source without this function lends no memory.
  std::function<bool()> is_readable = {};
};

// An array in one piece, which is lent. `data` must outlive the source.
SliceSource SourceOf(std::span<const std::byte> data);

// An array that is computed while it is sent. `generator` must outlive the source.
SliceSource SourceOf(const Generator& generator);

// Returns the status of a call that sent slices of `source`. If the system could not read the memory of
// `source`, the status is INVALID_ARGUMENT, because another attempt could not read it either. If it could not
// read that of another call on the same connection, this call may be retried.
absl::Status BlameSource(absl::Status status, const SliceSource& source);

struct ReduceJob {
  const v1::ReductionSpec& spec;
  std::uint64_t element_bytes = 0;
  std::uint64_t element_count = 0;
  std::uint64_t chunk_bytes = 0;
  const SliceSource& source;
  Targets& targets;
  const ClientOptions& client_options;
  const CallOptions& options;
  absl::Time deadline;
  std::string array = {};  // names it to the servers if it is sent in several parts
};

// Runs a job's attempts, the first one at target `preferred`. `once` and `begin` as in RetryLoop::Run.
template <class Once>
auto RunJob(const ReduceJob& job, std::size_t preferred, const Once& once, const Attempt& begin = {}) {
  RetryLoop retry(job.targets, preferred, job.client_options, job.deadline, InterruptsOf(job.options));
  return retry.Run(once, begin);
}

// The next chunk of the array, which begins at *offset, in bytes, and ends at `end` at the latest. Advances
// *offset.
grpc::Slice NextChunk(const ReduceJob& job, std::uint64_t* offset, std::uint64_t end, LentMemory& memory);

// One attempt at a part of the array, which its user drives:
//
//   while (call.SendChunk()) continue;
//   call.Commit();
//   absl::StatusOr<v1::Reduction> reduction = call.Finish();
//
// Threads: one at a time.
class StripeCall {
 public:
  // Starts the call. `job` and `connection` must outlive this.
  StripeCall(const ReduceJob& job, const Stripe& stripe, bool return_state, const Connection& connection,
             const Interrupts& interrupts);

  // False if there is no more to send, or the call is over.
  bool SendChunk();

  // As ArrayStream's. After Commit the response comes while other calls on the connection send.
  bool Commit() { return stream_.Commit(job_.element_bytes); }
  bool AwaitEnd(absl::Duration timeout) { return stream_.AwaitEnd(timeout); }
  absl::StatusOr<v1::Reduction> Finish();

 private:
  const ReduceJob& job_;
  std::uint64_t offset_;  // of the next chunk in the array, in bytes
  const std::uint64_t end_;
  LentMemory memory_;  // outlives the call
  ArrayStream stream_;
};

// The same in one step.
absl::StatusOr<v1::Reduction> SendStripe(const ReduceJob& job, const Stripe& stripe, bool return_state,
                                         const Connection& connection, const Interrupts& interrupts);

// The whole array on one stream.
absl::StatusOr<v1::Reduction> ReduceOnOneStream(const ReduceJob& job);

}  // namespace warpfold
