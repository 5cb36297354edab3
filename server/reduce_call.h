// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One Reduce call on gRPC's asynchronous API.
//
// The completion queue's thread receives messages, a worker thread runs the Session over them, so that
// receiving the next message overlaps with copying this one. At most kMaxQueuedMessages wait between the
// two: then reading pauses and flow control holds the client back.
//
// The call is answered once, by whoever first knows how: the worker with a result or an error, or the
// thread that stops the call (limits, drain, lost device, client gone), which does not wait for the worker.
//
// Threads: methods named On... run on the completion queue's thread or on the registry's, Work on a worker.
// Lifetime: kept by the operations and tasks in progress.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "server/call_host.h"
#include "server/completion_tag.h"
#include "server/session.h"

namespace warpfold::server {

class ReduceCall : public std::enable_shared_from_this<ReduceCall> {
 public:
  // Asks gRPC for the next Reduce call. Whichever comes asks for the one after it.
  static void Request(CallHost& host, grpc::ServerCompletionQueue* queue);

  ReduceCall(CallHost& host, grpc::ServerCompletionQueue* queue) : host_(host), queue_(queue) {}

 private:
  static constexpr std::size_t kMaxQueuedMessages = 2;
  // A worker turns to another call after this many, if one waits.
  static constexpr int kMaxMessagesPerTurn = 64;

  // What a call holds while it is being served.
  struct Resources {
    // Destroyed from the bottom up: the place among the reductions in progress is given back last.
    Admission::Ticket ticket;
    CallRegistry::Registration registration;
    std::unique_ptr<Session> session;
    std::deque<grpc::ByteBuffer> messages;
  };
  enum class Step { kMessage, kPause, kEnd, kYield, kNothing };

  void OnRequested(bool ok);
  void OnRead(bool ok);
  void OnDone();
  void OnStopped();
  void Work();

  Step NextStep(bool may_go_on, grpc::ByteBuffer* message);
  bool MayRest();
  void Answer(const absl::StatusOr<v1::ReduceResponse>& response);
  Resources Leave();

  void ReadMoreLocked();
  void ScheduleWorkLocked();
  // `session` is for the log; null where the caller may not look at it.
  void AnswerLocked(const absl::StatusOr<v1::ReduceResponse>& response, const Session* session);

  CallHost& host_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReader<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context_};
  CompletionTag request_tag_;
  CompletionTag done_tag_;
  CompletionTag read_tag_;
  CompletionTag finish_tag_;
  std::shared_ptr<CallControl> control_;  // null until admitted
  absl::Time start_;

  std::mutex mutex_;
  grpc::ByteBuffer incoming_;  // gRPC's while reading_
  bool reading_ = false;
  bool ended_ = false;    // no more messages
  bool working_ = false;  // a worker has the session, or will have
  bool answered_ = false;
  Resources resources_;  // the session in it is the worker's while working_
};

}  // namespace warpfold::server
