// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A client-streaming or unary call whose messages are raw bytes. It has a completion queue of its own,
// drained by the calling thread: no thread of gRPC's is between the caller and the network. Internal.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "google/protobuf/message_lite.h"

namespace warpfold {

// Threads: one at a time.
class RawCall {
 public:
  // Prepares the call, which starts with the first message. `scope` must outlive it.
  RawCall(CallScope& scope, const char* method);
  // Cancels the call unless Finish was called.
  ~RawCall();
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  // Waits until the message before this one is taken by the network, starts to send this one, and returns:
  // the caller makes the next message while this one is sent. False if the call is over: Finish says why.
  bool Write(const grpc::ByteBuffer& message) { return StartWrite(message, grpc::WriteOptions()); }
  bool WriteLast(const grpc::ByteBuffer& message) {
    return StartWrite(message, grpc::WriteOptions().set_last_message());
  }

  // Waits until the network has taken all messages. False if the call is over: Finish says why.
  bool Flush() { return Await(write_); }

  // Waits up to `timeout` for the call to end: with the server's answer, its deadline or a cancellation.
  // Whether it has: Finish then does not wait. The end is noticed only while a thread is in this class.
  bool AwaitEnd(absl::Duration timeout);

  // Messages that the network is known to have taken.
  int writes_completed() const { return writes_completed_; }

  // Waits for the end of the call. *response is the server's message if the status is OK. Call once.
  absl::Status Finish(grpc::ByteBuffer* response);

 private:
  // What gRPC is asked to do; its address is the tag.
  struct Operation {
    bool pending = false;
    bool ok = true;  // of the last one that completed
  };

  bool StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options);
  // Marks it as pending, and returns the tag.
  static void* Begin(Operation& operation);
  void Complete(void* tag, bool ok);
  // The next event; false if there will be none.
  bool Next(void** tag, bool* ok);
  // Waits until it is not pending: whether it succeeded.
  bool Await(const Operation& operation);

  CallScope& scope_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer response_;
  Operation write_;  // the last one
  Operation read_;
  Operation finish_;
  int writes_completed_ = 0;
  bool started_ = false;
  bool finished_ = false;
};

// One message each way, on a raw call. *response is the answer where the status is OK.
absl::Status CallUnary(CallScope& scope, const char* method, const google::protobuf::MessageLite& request,
                       google::protobuf::MessageLite& response);

}  // namespace warpfold
