// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array on its way to a result, apart from its transport: checks the order of messages, counts the bytes,
// checksums them where that was announced, and hands them to an ArrayReducer. Nothing here blocks: each
// function says what the session needs next.
//
// Threads: the shard's only. After an error the session answers nothing more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/crc32c.h"
#include "server/core/array_reducer.h"
#include "server/core/message.h"
#include "server/core/protocol.h"
#include "server/core/request_parser.h"
#include "server/core/service.h"
#include "server/core/slot_share.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

class Session {
 public:
  enum class Need {
    kMessage,  // the next message, or the end of messages
    kDevice,   // nothing but time: the listener is called when Resume may get further
    kNothing,  // the result is there
  };

  // `service` and `share` must outlive the session.
  Session(const Service& service, SlotShare& share, std::function<void()> listener)
      : service_(service), share_(share), listener_(std::move(listener)) {}

  // The next message of a Reduce stream. Only while a message is needed.
  absl::StatusOr<Need> OnMessage(Message message);
  // The client sends no more, or the stream broke.
  absl::StatusOr<Need> OnEnd();
  // The one message of ReduceArray, instead of all of these.
  absl::StatusOr<Need> OnArray(Message message);
  // After the listener was called.
  absl::StatusOr<Need> Resume();

  // The answer, once nothing is needed.
  absl::StatusOr<v1::Reduction> Result() const;

  // Gives back slots and messages: the session has been answered.
  void Release();

  // Whether the last message carried something. Else a client could hold its place among the reductions with
  // messages of a few bytes.
  bool made_progress() const { return made_progress_; }

  // Whether the array is a part of one, to be merged.
  bool returns_state() const { return header_.return_state(); }

  // For logs.
  const std::string& request_id() const { return header_.request_id(); }
  std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  // The bytes of a message that have not been placed yet.
  struct Pending {
    Message message;
    ParsedChunk chunk;
    std::size_t slice = 0;
    std::size_t offset = 0;
    proto::Crc32c crc32c;  // of the bytes placed, where the chunk has a checksum
  };

  absl::StatusOr<Need> Act(Action action, StreamState before, ParsedRequest request, Message message);
  absl::Status Begin(v1::ReduceHeader header);
  absl::Status CheckHeader(const kernels::Reduction& reduction) const;
  absl::StatusOr<Need> Take(ParsedChunk chunk, Message message);
  absl::StatusOr<Need> Place();
  void Checksum(ByteSlice placed);
  absl::Status EndChunk();
  absl::Status CheckSize(std::uint64_t chunk_bytes) const;
  absl::Status Compare(const v1::ReduceCommit& commit);
  absl::Status CompareElements(std::uint64_t announced) const;
  absl::StatusOr<Need> TryFinish();

  const Service& service_;
  SlotShare& share_;
  const std::function<void()> listener_;
  StreamState state_ = StreamState::kStart;
  v1::ReduceHeader header_;
  std::optional<ArrayReducer> reducer_;  // once there is a header
  std::optional<Pending> pending_;
  bool finishing_ = false;  // all has come
  bool made_progress_ = false;
  std::uint64_t received_bytes_ = 0;
  proto::Crc32c crc32c_;  // of the received bytes, where the header announces one
  absl::Time begin_;
  absl::Duration receive_;
};

// INVALID_ARGUMENT (BAD_HEADER) unless at most 128 printable ASCII characters.
absl::Status CheckRequestId(const std::string& request_id);

}  // namespace warpfold::server
