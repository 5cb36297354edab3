// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a Writer. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/calls/array_stream.h"
#include "client/calls/retry.h"
#include "client/calls/wire.h"
#include "client/connections/status.h"
#include "client/connections/targets.h"
#include "client/writer.h"
#include "proto/shared/steady_time.h"

namespace warpfold {

struct Writer::State {
  State(Targets& targets, const ClientOptions& client_options, const CallOptions& call_options,
        std::uint64_t element_size);

  // Starts the call with `header`, and again if it is rejected or its server leaves, until it is admitted:
  // from then on a server that drains waits for it.
  absl::Status Open(const v1::ReduceHeader& header);

  // Sends the bytes gathered so far. Finishes if the call is over.
  void SendChunk();

  // Commits if nothing failed; sets outcome.
  void Finish();

  // Whether the call's time is over.
  bool IsOverdue() const { return SteadyNow() >= deadline; }

  // Runs a function that may call one of the caller's callbacks. If that throws, the call is over.
  template <typename Step>
  auto Run(const Step& step) {
    try {
      return step();
    } catch (...) {
      outcome = Cancelled();
      throw;
    }
  }

  // What Write and Flush return.
  absl::Status status() const;

  const absl::Time start = SteadyNow();
  const CallOptions options;
  const absl::Time deadline;
  const std::uint64_t element_bytes;
  RetryLoop retry;                    // has the connection
  OwnedChunk chunk;                   // kChunkBytes, or null
  std::size_t chunk_bytes = 0;        // how many of them are filled
  std::optional<ArrayStream> stream;  // from Open on
  absl::Time sent;                    // when the last message was
  absl::Time written = start;         // when the last Write ended
  // The outcome, once there is one.
  std::optional<absl::StatusOr<Reduction>> outcome;
};

}  // namespace warpfold
