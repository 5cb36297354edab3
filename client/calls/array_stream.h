// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One Reduce call: header, chunks, commit. Internal.
#pragma once

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/calls/chunk_stream.h"
#include "client/calls/stripes.h"
#include "client/connections/connection.h"
#include "client/options.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// Threads: one at a time.
class ArrayStream {
 public:
  // Starts the call and sends the header. `options`, `array` and `load` as in ChunkStream.
  ArrayStream(const Connection& connection, absl::Time deadline, const Interrupts& interrupts,
              const CallOptions& options, const v1::ReduceHeader& header, const std::string& array = "",
              RawCall::Load load = RawCall::Load::kArray);

  // As ChunkStream's.
  bool AwaitAdmission() { return chunks_.AwaitAdmission(); }
  bool Send(const grpc::Slice& chunk) { return chunks_.Send(chunk); }
  bool Flush() { return chunks_.Flush(); }
  bool AwaitEnd(absl::Duration timeout) { return chunks_.AwaitEnd(timeout); }
  bool Commit(std::uint64_t element_bytes);

  // As ChunkStream's; also INTERNAL for a response that does not fit this request.
  absl::StatusOr<v1::Reduction> Finish();

 private:
  const v1::ReduceHeader header_;
  ChunkStream chunks_;
  Stripe committed_;
};

}  // namespace warpfold
