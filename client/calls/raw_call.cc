// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/raw_call.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <thread>
#include <utility>

#include "client/calls/wire.h"
#include "client/connections/grpc_process.h"
#include "client/connections/status.h"
#include "client/connections/target_load.h"
#include "proto/error_reasons.h"
#include "proto/metadata.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

// A time that is long gone, and that gRPC can still count in nanoseconds.
constexpr std::chrono::system_clock::time_point kAtOnce = {};

// How long a call waits for a descriptor that it needs for waiting, which other threads of the process may
// give back.
constexpr absl::Duration kLongestWithoutDescriptor = absl::Seconds(1);

}  // namespace

RawCall::RawCall(CallScope& scope, const char* method, OnMessage on_message, Load load)
    : scope_(scope),
      on_message_(std::move(on_message)),
      queue_(scope.queues().Take()),
      too_late_(SteadyNow() >= scope.end()),
      ends_at_latest_(scope.end() + kLatestTimer),
      load_(load),
      asks_first_(AsksFirst(scope.target_load(), load)) {
  if (too_late_) return;
  if (asks_first_) scope.context().AddMetadata(metadata::kExpect, metadata::kAdmission);
  // The call's metadata are sent with the first message: this saves one packet, and one wake-up of the
  // server.
  scope.context().set_initial_metadata_corked(true);
  call_ = grpc::GenericStub(scope.channel()).PrepareCall(&scope.context(), method, queue_.get());
  call_->StartCall(nullptr);
}

RawCall::~RawCall() {
  if (!finished_) {
    scope_.Cancel();
    finished_by_client_ = true;
    grpc::ByteBuffer ignored;
    Finish(&ignored).IgnoreError();
  }
  // Finish has waited for all operations that were begun, so that no event is left for the next call on this
  // queue.
  assert(!write_.pending && !metadata_.pending && !read_.pending && !writes_done_.pending &&
         !finish_.pending);
  scope_.queues().GiveBack(std::move(queue_));
}

bool RawCall::StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options) {
  if (too_late_ || !Await(write_)) return false;
  call_->Write(message, options, Begin(write_));
  // The call waits for the response from the beginning: it may come before the last message, and ends the
  // call.
  if (!std::exchange(started_, true)) {
    if (!asks_first_) TakePlace();
    StartRead();
  }
  return true;
}

void RawCall::StartRead() {
  void* const tag = Begin(read_);
  // gRPC takes the server's metadata with the first message, unless they are asked for before it.
  if (asks_first_) return call_->ReadInitialMetadata(Begin(metadata_));
  call_->Read(&incoming_, tag);
}

bool RawCall::AwaitAdmission() {
  if (!asks_first_) return true;
  // The wait is for the server, not for a connection.
  if (!Await(write_)) return false;
  const absl::Time end = SteadyNow() + kLongestWaitForAdmission;
  void* tag = nullptr;
  bool ok = false;
  // A rejection ends the call before a message comes.
  while (!admitted_ && read_.pending && Next(&tag, &ok, end)) Complete(tag, ok);
  if (!read_.pending) return false;
  if (!admitted_) scope_.target_load().HeardNothing(SteadyNow());
  TakePlace();
  return true;
}

// A Writer is not counted: its call ends when its caller says so, and the caller may be waiting for another
// one.
void RawCall::TakePlace() {
  if (load_ == Load::kArray && !std::exchange(has_place_, true)) scope_.target_load().TookPlace();
}

void RawCall::LeavePlace() {
  if (std::exchange(has_place_, false)) scope_.target_load().LeftPlace();
}

void RawCall::WritesDone() {
  if (too_late_ || !Await(write_)) return;
  call_->WritesDone(Begin(writes_done_));
}

bool RawCall::AwaitEnd(absl::Duration timeout) {
  // gRPC treats a time before 1970 as never.
  const absl::Time end = SteadyNow() + std::max(timeout, absl::ZeroDuration());
  void* tag = nullptr;
  bool ok = false;
  while (read_.pending && Next(&tag, &ok, end)) Complete(tag, ok);
  return !read_.pending;
}

absl::Status RawCall::Finish(grpc::ByteBuffer* response, absl::Duration awake) {
  if (too_late_) {
    finished_ = true;
    return MakeError(absl::StatusCode::kDeadlineExceeded, reason::kDeadline,
                     "the deadline passed before the call began");
  }
  if (awake > absl::ZeroDuration()) polls_until_ = SteadyNow() + awake;
  Await(write_);
  Await(writes_done_);
  Await(read_);
  // This is done only once: if keep_going or on_message threw out of a wait, the destructor comes here again.
  if (!std::exchange(finishes_, true)) call_->Finish(&status_, Begin(finish_));
  Await(finish_);
  finished_ = true;
  LeavePlace();
  if (could_not_wait_) {
    return absl::ResourceExhaustedError("this process has no file descriptor left to wait for an answer by");
  }
  if (is_overdue_) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, reason::kDeadline,
                     "the deadline has passed, and gRPC has not ended the call: it may lack a thread");
  }
  if (scope_.given_up()) return Cancelled();
  if (has_second_) return MakeMismatch("a second message");
  if (status_.ok() && !has_message_ && !on_message_)
    return absl::InternalError("the server answered OK without a message");
  response->Swap(&response_);
  if (WasDropped()) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kDraining,
                     "the server ended the call without an answer");
  }
  // The client's window is full of answers, so that the server cannot send its own status either.
  if (IsUnexplained() && has_message_) {
    return absl::CancelledError(
        "the server ended the call before its answer was complete; it does so if answers are taken too "
        "slowly");
  }
  absl::Status answer = FromGrpc(status_);
  if (IsBusy(answer)) scope_.target_load().Refused(SteadyNow());
  return answer;
}

// A call that arrives while a server shuts down (rpc_server.cc, Drain) is ended by gRPC alone, with a status
// that nobody here has asked for, and without anything else. A connection that was idle learns late that its
// server drains, since nobody has polled it.
bool RawCall::WasDropped() const { return IsUnexplained() && !admitted_ && !has_message_; }

bool RawCall::IsUnexplained() const {
  return status_.error_code() == grpc::StatusCode::CANCELLED && status_.error_details().empty() &&
         !scope_.is_cancelled() && !finished_by_client_;
}

bool RawCall::AsksFirst(const TargetLoad& target_load, Load load) {
  if (load == Load::kSmall) return false;
  const absl::Time now = SteadyNow();
  return load == Load::kArrayOnce ? target_load.MayAsk(now) : target_load.AsksFirst(now);
}

void* RawCall::Begin(Operation& operation) {
  operation.pending = true;
  return &operation;
}

void RawCall::Complete(void* tag, bool ok) {
  *static_cast<Operation*>(tag) = {.pending = false, .ok = ok};
  if (tag == &write_ && ok) ++writes_completed_;
  if (tag == &metadata_) TakeMetadata();
  if (tag == &read_ && ok) TakeMessage();
}

void RawCall::TakeMetadata() {
  admitted_ = scope_.context().GetServerInitialMetadata().count(metadata::kAdmitted) != 0;
  if (admitted_) scope_.target_load().Admitted();
  call_->Read(&incoming_, &read_);
}

void RawCall::TakeMessage() {
  grpc::ByteBuffer message;
  message.Swap(&incoming_);
  // Messages that arrive after a cancellation are dropped.
  if (!finished_by_client_ && !Accept(std::move(message))) {
    finished_by_client_ = true;
    scope_.context().TryCancel();
  }
  // This goes on until nothing is left to read: gRPC withholds a call's status until its messages have been
  // read.
  call_->Read(&incoming_, Begin(read_));
}

bool RawCall::Accept(grpc::ByteBuffer message) {
  const bool has_earlier = std::exchange(has_message_, true);
  if (on_message_) return on_message_(std::move(message));
  has_second_ = has_earlier;
  if (!has_second_) response_.Swap(&message);
  return !has_second_;
}

bool RawCall::Await(const Operation& operation) {
  void* tag = nullptr;
  bool ok = false;
  while (operation.pending && Next(&tag, &ok)) Complete(tag, ok);
  return operation.ok;
}

bool RawCall::Next(void** tag, bool* ok, absl::Time end) {
  if (Poll(tag, ok)) return true;
  const bool sends = write_.pending || writes_done_.pending;
  const absl::Time blocked_since = sends ? SteadyNow() : absl::InfiniteFuture();
  while (true) {
    const absl::Time until = std::min({scope_.AskWhetherToGoOn(blocked_since), end, ends_at_latest_});
    switch (AwaitEvent(*queue_, tag, ok, until)) {
      case Waited::kEvent:
        cannot_wait_since_ = absl::InfiniteFuture();
        return true;
      case Waited::kTimeout:
        cannot_wait_since_ = absl::InfiniteFuture();
        if (until == end) return false;
        break;
      case Waited::kFailed:
        polls_until_ = absl::InfinitePast();  // polling needs a descriptor, too
        CouldNotWait();
        break;
    }
    const absl::Time now = SteadyNow();
    if (now >= end) return false;
    if (now >= ends_at_latest_) EndOverdue();
  }
}

void RawCall::EndOverdue() {
  is_overdue_ = true;
  ends_at_latest_ = absl::InfiniteFuture();
  scope_.Cancel();
}

void RawCall::CouldNotWait() {
  cannot_wait_since_ = std::min(cannot_wait_since_, SteadyNow());
  if (could_not_wait_ || SteadyNow() - cannot_wait_since_ < kLongestWithoutDescriptor) return;
  could_not_wait_ = true;
  scope_.Cancel();  // gRPC reports the end of the call without a wait
}

// Other threads that have work for this processor can use it between two polls.
bool RawCall::Poll(void** tag, bool* ok) {
  while (SteadyNow() < polls_until_) {
    const auto event = queue_->AsyncNext(tag, ok, kAtOnce);
    if (event == grpc::CompletionQueue::GOT_EVENT) return true;
    std::this_thread::yield();
  }
  return false;
}

absl::Status CallUnary(CallScope& scope, const char* method, const google::protobuf::MessageLite& request,
                       google::protobuf::MessageLite& response, absl::Duration awake, RawCall::Load load) {
  RawCall call(scope, method, nullptr, load);
  if (call.WriteLast(Serialize(request))) call.AwaitAdmission();
  grpc::ByteBuffer buffer;
  if (absl::Status status = call.Finish(&buffer, awake); !status.ok()) return status;
  return ParseAnswer(std::move(buffer), response);
}

}  // namespace warpfold
