// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A call of any kind whose messages are raw bytes. As long as it lives it has its own completion queue,
// drained by the calling thread: no gRPC thread is between the caller and the network. Internal.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/connections/connection.h"
#include "google/protobuf/message_lite.h"

namespace warpfold {

// Threads: one at a time.
class RawCall {
 public:
  // Takes a message from a server that sends several, on the thread that is in this class: any of its
  // functions may call it. False ends the call.
  using OnMessage = std::function<bool(grpc::ByteBuffer message)>;

  // A call that reduces an array, sent or not, has a place at the server, and asks for its admission first if
  // the target has recently rejected calls; a call whose array cannot be sent again always does.
  enum class Load { kSmall, kArray, kArrayOnce };

  // Prepares the call, which starts with the first message. `scope` must outlive it. Without `on_message` the
  // server sends one message, the response; a second one is INTERNAL. A call whose deadline has passed is
  // over before it starts, with DEADLINE_EXCEEDED: gRPC would send it all the same if there is a connection,
  // and treats a deadline before 1970 as no deadline.
  RawCall(CallScope& scope, const char* method, OnMessage on_message = nullptr, Load load = Load::kSmall);
  // Cancels the call unless Finish has returned.
  ~RawCall();
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  // Waits until the message before this one is taken by the network, starts to send this one, and returns:
  // the caller makes the next message while this one is sent. False if the call is over: Finish says why.
  bool Write(const grpc::ByteBuffer& message) { return StartWrite(message, grpc::WriteOptions()); }
  bool WriteLast(const grpc::ByteBuffer& message) {
    return StartWrite(message, grpc::WriteOptions().set_last_message());
  }

  // Call this after the header of an array. If the call asks for its admission, this waits until the server
  // has reported it, or has sent nothing for too long. False if the call is over: Finish says why.
  bool AwaitAdmission();

  // There are no more messages. For a call whose last message was not sent by WriteLast.
  void WritesDone();

  // Waits until the network has taken all messages. False if the call is over: Finish says why.
  bool Flush() { return !too_late_ && Await(write_); }

  // Waits up to `timeout`, which may be negative, for the call to end: with the server's response, its
  // deadline or a cancellation. Returns whether it has: Finish then does not wait. The end is noticed only
  // while a thread is in this class.
  bool AwaitEnd(absl::Duration timeout);

  // Whether the server's gRPC has ended the call, probably before the server took it: Finish returns DRAINING
  // then. Call this after Finish.
  bool WasDropped() const;

  // Messages that the network is known to have taken.
  int writes_completed() const { return writes_completed_; }

  // Waits for the end of the call. *response is the server's message if the status is OK, unless there is an
  // on_message, which has taken them all. CANCELLED, whatever the server responds, if keep_going said so: it
  // is not called any more. Call once.
  //
  // For `awake` the thread does not sleep while it waits, as CUDA's own waits do not: a thread that sleeps
  // for a millisecond wakes up late, by tens of microseconds and more on a virtual machine (docs/adr/0116).
  absl::Status Finish(grpc::ByteBuffer* response, absl::Duration awake = absl::ZeroDuration());

 private:
  // An operation that gRPC is asked to do; its address is the tag.
  struct Operation {
    bool pending = false;
    bool ok = true;  // of the last one that completed
  };

  bool StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options);
  void StartRead();
  // Marks it as pending, and returns the tag.
  static void* Begin(Operation& operation);
  void Complete(void* tag, bool ok);
  void TakeMetadata();
  void TakeMessage();
  // Whether the call ended as CANCELLED, which nobody here has asked for, and the server has said no more.
  bool IsUnexplained() const;
  // False for one that ends the call.
  bool Accept(grpc::ByteBuffer message);
  static bool AsksFirst(const TargetLoad& target_load, Load load);
  // For the client's other calls to this target: see TargetLoad.
  void TakePlace();
  void LeavePlace();
  // The next event; false if there is none before `end`.
  bool Next(void** tag, bool* ok, absl::Time end = absl::InfiniteFuture());
  // The next event if it comes before polls_until_.
  bool Poll(void** tag, bool* ok);
  // gRPC could not wait for an event: gives the call up if this lasts too long.
  void CouldNotWait();
  // The deadline has passed, and gRPC has not ended the call.
  void EndOverdue();
  // Waits until it is not pending. Returns whether it succeeded.
  bool Await(const Operation& operation);

  CallScope& scope_;
  const OnMessage on_message_;
  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer incoming_;  // what gRPC reads into
  grpc::ByteBuffer response_;
  grpc::Status status_;
  Operation write_;     // the last one
  Operation metadata_;  // of the server, if they are waited for
  Operation read_;      // a message, and those metadata before it
  Operation writes_done_;
  Operation finish_;
  int writes_completed_ = 0;
  const bool too_late_;  // it never starts
  absl::Time ends_at_latest_;
  bool is_overdue_ = false;
  const Load load_;
  const bool asks_first_;
  bool has_place_ = false;
  bool admitted_ = false;  // the server says so
  bool started_ = false;
  bool has_message_ = false;
  bool has_second_ = false;  // which a call with one response does not have
  absl::Time polls_until_ = absl::InfinitePast();
  bool finished_by_client_ = false;  // on_message said so, or nobody wants more messages
  bool finishes_ = false;            // gRPC has been asked for the status
  bool finished_ = false;
  absl::Time cannot_wait_since_ = absl::InfiniteFuture();
  bool could_not_wait_ = false;  // for so long that the call was given up
};

// One message each way, on a raw call. *response is the response if the status is OK.
absl::Status CallUnary(CallScope& scope, const char* method, const google::protobuf::MessageLite& request,
                       google::protobuf::MessageLite& response, absl::Duration awake = absl::ZeroDuration(),
                       RawCall::Load load = RawCall::Load::kSmall);

}  // namespace warpfold
