// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One Reduce stream, apart from its transport: checks the order of messages, counts and checksums the
// bytes, and hands them to an ArrayReducer.
//
// Threads: one at a time. Blocks as ArrayReducer does. After an error the session answers nothing more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/crc32c.h"
#include "server/array_reducer.h"
#include "server/byte_slices.h"
#include "server/call_control.h"
#include "server/engine.h"
#include "server/protocol.h"
#include "server/request_parser.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

class Session {
 public:
  // `engine` and `call` must outlive the session.
  Session(Engine& engine, CallControl& call) : engine_(engine), call_(call) {}

  // Takes the next message, and tells the call if it is progress; its bytes are not needed afterwards. An
  // error ends the stream.
  absl::Status OnMessage(ByteSlices message);

  // To be called when no further message is at hand: reduces what has come and holds no slot afterwards.
  absl::Status OnPause();

  // The client sends no more, or the stream broke.
  absl::StatusOr<v1::ReduceResponse> OnEnd();

  // For logs.
  const std::string& request_id() const { return header_.request_id(); }
  std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  absl::Status Act(Action action, StreamState before, ParsedRequest request);
  absl::Status Begin(v1::ReduceHeader header);
  absl::Status CheckHeader(const kernels::Reduction& reduction) const;
  absl::Status Take(const ParsedChunk& chunk);
  absl::Status CheckSize(std::uint64_t chunk_bytes) const;
  absl::Status Compare(const v1::ReduceCommit& commit);
  absl::StatusOr<v1::ReduceResponse> Answer();

  Engine& engine_;
  CallControl& call_;
  StreamState state_ = StreamState::kStart;
  v1::ReduceHeader header_;
  std::optional<kernels::Reduction> reduction_;  // once there is a header
  std::optional<ArrayReducer> reducer_;          // likewise
  std::uint64_t received_bytes_ = 0;
  proto::Crc32c crc32c_;  // of the received bytes
  absl::Time begin_;
  absl::Duration receive_;
};

// INVALID_ARGUMENT (BAD_HEADER) unless at most 128 printable ASCII characters.
absl::Status CheckRequestId(const std::string& request_id);

// UNIMPLEMENTED (UNSUPPORTED_ALGORITHM) if the device does not have the reduction's algorithm.
absl::Status CheckAlgorithm(const Engine& engine, const kernels::Reduction& reduction);

// RESOURCE_EXHAUSTED (ARRAY_TOO_LARGE).
absl::Status ArrayTooLarge(std::uint64_t max_stream_bytes);

// What the service says about where and how fast an array was reduced.
void FillServerPart(const Engine& engine, const ReducerTimings& timings, absl::Duration receive,
                    v1::Reduction* reduction);

}  // namespace warpfold::server
