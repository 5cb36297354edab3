// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array on its way, independent of its transport and of what is done with it: checks the order of
// messages (protocol.h) and says what the stream needs next. Nothing here blocks.
//
// Threads: the shard's only. After an error the session returns nothing more.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/call_observer.h"
#include "server/core/calls/incoming_array.h"
#include "server/core/calls/protocol.h"
#include "server/core/calls/service.h"
#include "server/core/slots/slot_reducer.h"
#include "server/core/wire/message.h"
#include "server/core/wire/request_parser.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold::server {

class ArraySession {
 public:
  enum class Need {
    kMessage,  // the next message, or the end of messages
    kDevice,   // nothing but time: Resume when the sink has got further
    kNothing,  // the response is there
  };

  // `service` and the pool must outlive the session. `listener` is called when Resume may get further.
  ArraySession(const Service& service, PartySlots slots, std::function<void()> listener)
      : service_(service), slots_(std::move(slots)), listener_(std::move(listener)) {}
  virtual ~ArraySession() = default;

  // The client's next message. Only while a message is needed.
  virtual absl::StatusOr<Need> OnMessage(Message message);
  // The client sends no more. (If it has gone, the call ends without this.)
  virtual absl::StatusOr<Need> OnEnd();
  absl::StatusOr<Need> Resume();

  // The response, serialised, once nothing is needed.
  virtual absl::StatusOr<std::string> Response() = 0;

  // Results that are ready while the array is still arriving. They are sent before the response, oldest
  // first. Taking one may make room: Resume then gets further.
  virtual bool has_output() const { return false; }
  virtual std::string TakeOutput() { return ""; }

  // Gives back slots and messages: the session has been answered.
  virtual void Release();

  // The response did not reach the client. After Release.
  virtual void OnNotDelivered() {}

  // Whether the response hands out a partial state.
  virtual bool returns_state() const { return false; }
  // Whether the last message carried something. Empty messages do not count as progress: otherwise a client
  // could hold its place among the reductions for ever with them.
  bool made_progress() const { return made_progress_; }

  // Whether the last message can only be placed when a slot is free.
  bool waits_for_slot() const {
    const bool is_placing = placing_lengths_ || (incoming_.has_value() && incoming_->is_placing());
    return is_placing && sink_ != nullptr && sink_->waits_for_slot();
  }

  // How many bytes of earlier messages are copied back with the next one.
  std::uint64_t held_bytes() const { return sink_ != nullptr ? sink_->held_bytes() : 0; }

  virtual const std::string& request_id() const = 0;
  // For logs and metrics: what is known about the array and its reduction at the end of the call.
  virtual void Describe(absl::Time /*end*/, CallRecord* record) const {
    record->request_id = request_id();
    record->bytes = array_bytes();
  }
  // How many bytes of the array have arrived; its whole size if the server reads it from memory.
  virtual std::uint64_t array_bytes() const {
    return incoming_.has_value() ? incoming_->received_bytes() : 0;
  }
  // How many bytes the client has sent: the array's, and those of the lengths that say how it is split.
  virtual std::uint64_t progress_bytes() const { return array_bytes(); }
  // How many bytes are unavailable to others until all of the array has come.
  virtual std::uint64_t reserved_bytes() const { return 0; }

 protected:
  // A message of the stream. The parser keeps the header itself.
  struct StreamMessage {
    MessageKind kind = MessageKind::kHeader;
    ParsedChunk chunk;
    std::uint64_t length_bytes = 0;  // of lengths, which the parser keeps
    v1::ReduceCommit commit;

    std::uint64_t byte_count() const { return TotalBytes(chunk.data) + length_bytes; }
  };
  template <class Header>
  static StreamMessage ToStreamMessage(ParsedRequest<Header> request, Header* header);

  virtual absl::StatusOr<StreamMessage> Parse(ByteSlices message) = 0;
  // The header that was parsed last starts the array: makes incoming_, unless no chunks may follow.
  virtual absl::Status Begin() = 0;
  // What the sink heard from the device.
  virtual absl::Status SinkStatus() const = 0;
  // The array has been committed, and matches. An error if the commit contains something that does not.
  virtual absl::Status OnCommitted() { return absl::OkStatus(); }
  // The lengths that were parsed last split what follows, or the next PlaceLengths goes on with them. True
  // once there is room for more of them.
  virtual absl::StatusOr<bool> TakeLengths() { return true; }
  virtual absl::StatusOr<bool> PlaceLengths() { return true; }
  // Everything has come. True once the response is ready.
  virtual absl::StatusOr<bool> TryFinish() = 0;

  // What the stream needs next, after the chunk that has come was `placed`, or has to wait for room.
  absl::StatusOr<Need> AfterPlacing(absl::StatusOr<bool> placed);
  absl::StatusOr<Need> AfterLengths(absl::StatusOr<bool> placed);
  // Everything has come: the array has begun, and nothing may follow.
  absl::StatusOr<Need> Finish();
  // The time from the header to the commit of an array that comes in chunks; nothing until then.
  std::optional<absl::Duration> receive_time() const { return receive_time_; }
  // The same for a call that ends at `end`: without a commit it is the time until then. Nothing if the array
  // does not come in chunks.
  std::optional<absl::Duration> ReceiveTimeUntil(absl::Time end) const;

  const Service& service_;
  const PartySlots slots_;
  const std::function<void()> listener_;
  std::optional<IncomingArray> incoming_;
  ArraySink* sink_ = nullptr;  // of incoming_

 private:
  absl::StatusOr<Need> Act(Action action, StreamState before, StreamMessage parsed, Message message);

  StreamState state_ = StreamState::kStart;
  bool finishing_ = false;        // all has come
  bool placing_lengths_ = false;  // not all of those that have come
  bool made_progress_ = false;
  absl::Time begin_;  // when the header came
  std::optional<absl::Duration> receive_time_;
};

template <class Header>
ArraySession::StreamMessage ArraySession::ToStreamMessage(ParsedRequest<Header> request, Header* header) {
  StreamMessage message;
  if (auto* const chunk = std::get_if<ParsedChunk>(&request)) {
    message.kind = MessageKind::kChunk;
    message.chunk = std::move(*chunk);
  } else if (auto* const commit = std::get_if<v1::ReduceCommit>(&request)) {
    message.kind = MessageKind::kCommit;
    message.commit = std::move(*commit);
  } else {
    *header = std::get<Header>(std::move(request));
  }
  return message;
}

// Stages of a reducer that took no time did not occur, except for the wait for a slot.
StageTimes StagesOf(const ReducerTimings& timings, std::optional<absl::Duration> receive);
// For the answer, which has zeros for stages that did not occur.
v1::ServerTimings TimingsToProto(const ReducerTimings& timings, std::optional<absl::Duration> receive);

// INVALID_ARGUMENT (BAD_HEADER) unless the field's text is at most kMaxTextBytes of printable ASCII.
absl::Status CheckText(absl::string_view field, const std::string& text);

}  // namespace warpfold::server
