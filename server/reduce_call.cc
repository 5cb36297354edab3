// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/reduce_call.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/call_log.h"
#include "server/status_translation.h"

namespace warpfold::server {
namespace {

absl::Status TakeMessage(Session& session, const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> owners;
  if (!message.Dump(&owners).ok()) return absl::InternalError("a message could not be read");
  std::vector<ByteSlice> slices;
  slices.reserve(owners.size());
  for (const grpc::Slice& owner : owners) {
    slices.push_back(std::as_bytes(std::span(owner.begin(), owner.size())));
  }
  return session.OnMessage(slices);
}

}  // namespace

void ReduceCall::Request(CallHost& host, grpc::ServerCompletionQueue* queue) {
  auto call = std::make_shared<ReduceCall>(host, queue);
  call->context_.AsyncNotifyWhenDone(call->done_tag_.Arm([call](bool) { call->OnDone(); }));
  host.service.RequestReduce(&call->context_, &call->stream_, queue, queue,
                             call->request_tag_.Arm([call](bool ok) { call->OnRequested(ok); }));
}

void ReduceCall::OnRequested(bool ok) {
  if (!ok) {
    // The server shuts down; gRPC reports the end only of calls that began.
    done_tag_.Disarm();
    return;
  }
  Request(host_, queue_);
  start_ = host_.engine.clock();
  absl::StatusOr<Admission::Ticket> ticket = host_.admission.Enter();
  const std::lock_guard lock(mutex_);
  if (!ticket.ok()) {
    AnswerLocked(ticket.status(), nullptr);
    return;
  }
  resources_.ticket = *std::move(ticket);
  const absl::Time deadline =
      DeadlineOn(host_.engine.clock, absl::Now, absl::FromChrono(context_.deadline()));
  control_ = std::make_shared<CallControl>(start_, deadline, host_.engine.limits.call);
  resources_.session = std::make_unique<Session>(host_.engine, *control_);
  resources_.registration = host_.calls.Add(control_, [weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->OnStopped();
  });
  ReadMoreLocked();
}

void ReduceCall::OnRead(bool ok) {
  const std::lock_guard lock(mutex_);
  reading_ = false;
  control_->MessageCame();
  if (answered_) return;
  if (ok) {
    resources_.messages.emplace_back().Swap(&incoming_);
  } else {
    ended_ = true;
  }
  ReadMoreLocked();
  ScheduleWorkLocked();
}

void ReduceCall::OnDone() {
  if (control_ == nullptr || !context_.IsCancelled()) return;
  absl::Status why = control_->Overdue(host_.engine.clock());
  if (why.ok()) why = absl::CancelledError("the client left");
  if (control_->Stop(std::move(why))) OnStopped();
}

void ReduceCall::OnStopped() {
  host_.engine.slots.Wake();
  Resources released;
  {
    const std::lock_guard lock(mutex_);
    AnswerLocked(control_->status(), working_ ? nullptr : resources_.session.get());
    // A worker that has the session gives it up by itself, as soon as it looks up.
    if (!working_) released = std::exchange(resources_, {});
  }
}

void ReduceCall::Work() {
  Session& session = *resources_.session;
  grpc::ByteBuffer message;
  for (int turn = 0;; ++turn) {
    const bool may_go_on = turn < kMaxMessagesPerTurn || !host_.workers.contended();
    switch (const Step step = NextStep(may_go_on, &message)) {
      case Step::kMessage: {
        const absl::Status status = TakeMessage(session, message);
        message.Clear();
        control_->MessageDone();
        if (!status.ok()) Answer(status);
        break;
      }
      case Step::kPause:
      case Step::kYield:
        if (const absl::Status status = session.OnPause(); !status.ok()) {
          Answer(status);
        } else if (step == Step::kYield) {
          host_.workers.Run([call = shared_from_this()] { call->Work(); });
          return;
        } else if (MayRest()) {
          return;
        }
        break;
      case Step::kEnd:
        Answer(session.OnEnd());
        break;
      case Step::kNothing:
        static_cast<void>(Leave());
        return;
    }
  }
}

ReduceCall::Step ReduceCall::NextStep(bool may_go_on, grpc::ByteBuffer* message) {
  const std::lock_guard lock(mutex_);
  if (answered_) return Step::kNothing;
  if (!may_go_on) return Step::kYield;
  if (resources_.messages.empty()) return ended_ ? Step::kEnd : Step::kPause;
  message->Swap(&resources_.messages.front());
  resources_.messages.pop_front();
  ReadMoreLocked();
  return Step::kMessage;
}

bool ReduceCall::MayRest() {
  const std::lock_guard lock(mutex_);
  if (answered_ || ended_ || !resources_.messages.empty()) return false;
  working_ = false;
  return true;
}

void ReduceCall::Answer(const absl::StatusOr<v1::ReduceResponse>& response) {
  const std::lock_guard lock(mutex_);
  AnswerLocked(response, resources_.session.get());
}

ReduceCall::Resources ReduceCall::Leave() {
  const std::lock_guard lock(mutex_);
  working_ = false;
  return std::exchange(resources_, {});
}

void ReduceCall::ReadMoreLocked() {
  if (reading_ || ended_ || answered_ || resources_.messages.size() >= kMaxQueuedMessages) return;
  reading_ = true;
  stream_.Read(&incoming_, read_tag_.Arm([call = shared_from_this()](bool ok) { call->OnRead(ok); }));
}

void ReduceCall::ScheduleWorkLocked() {
  if (working_) return;
  working_ = true;
  host_.workers.Run([call = shared_from_this()] { call->Work(); });
}

void ReduceCall::AnswerLocked(const absl::StatusOr<v1::ReduceResponse>& response, const Session* session) {
  if (std::exchange(answered_, true)) return;
  void* tag = finish_tag_.Arm([call = shared_from_this()](bool) {});
  if (response.ok()) {
    if (response->reduction().has_state()) host_.admission.StateGivenOut(host_.engine.clock());
    grpc::ByteBuffer bytes;
    bool own_buffer = false;
    static_cast<void>(
        grpc::SerializationTraits<v1::ReduceResponse>::Serialize(*response, &bytes, &own_buffer));
    stream_.Finish(bytes, grpc::Status::OK, tag);
  } else {
    stream_.FinishWithError(ToGrpcStatus(response.status()), tag);
  }
  LogCall("Reduce", response.status(), session == nullptr ? 0 : session->received_bytes(),
          host_.engine.clock() - start_, session == nullptr ? "" : session->request_id());
}

}  // namespace warpfold::server
