// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A call of one message and one answer on gRPC's asynchronous API.
//
// Threads: as ReduceCall. Lifetime: kept by the operations and tasks in progress.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "server/call_host.h"
#include "server/call_log.h"
#include "server/completion_tag.h"
#include "server/session.h"
#include "server/status_translation.h"

namespace warpfold::server {

// A method: how gRPC is asked for its calls and what answers them.
template <typename RequestType, typename ResponseType>
struct UnaryMethod {
  using Message = RequestType;
  using Response = ResponseType;

  absl::string_view name;
  void (AsyncService::*request)(grpc::ServerContext*, RequestType*,
                                grpc::ServerAsyncResponseWriter<ResponseType>*, grpc::CompletionQueue*,
                                grpc::ServerCompletionQueue*, void*);
  absl::StatusOr<ResponseType> (*handle)(Engine&, const CallControl&, const RequestType&);
  // Needs to be admitted as that, and runs on a worker; else answered where it arrives.
  std::optional<Admission::Kind> kind;
};

template <typename Method>
class UnaryCall : public std::enable_shared_from_this<UnaryCall<Method>> {
 public:
  // Asks gRPC for the next call of this method. Whichever comes asks for the one after it.
  static void Request(CallHost& host, const Method& method, grpc::ServerCompletionQueue* queue) {
    auto call = std::make_shared<UnaryCall>(host, method, queue);
    call->context_.AsyncNotifyWhenDone(call->done_tag_.Arm([call](bool) { call->OnDone(); }));
    (host.service.*method.request)(&call->context_, &call->message_, &call->writer_, queue, queue,
                                   call->request_tag_.Arm([call](bool ok) { call->OnRequested(ok); }));
  }

  UnaryCall(CallHost& host, const Method& method, grpc::ServerCompletionQueue* queue)
      : host_(host), method_(method), queue_(queue) {}

 private:
  void OnRequested(bool ok) {
    if (!ok) {
      done_tag_.Disarm();
      return;
    }
    Request(host_, method_, queue_);
    start_ = host_.engine.clock();
    // Idleness is a matter of streams: all there is to wait for has come.
    const absl::Time deadline =
        DeadlineOn(host_.engine.clock, absl::Now, absl::FromChrono(context_.deadline()));
    control_ = std::make_shared<CallControl>(start_, deadline,
                                             CallLimits{.duration = host_.engine.limits.call.duration});
    if (!method_.kind.has_value()) {
      Answer(method_.handle(host_.engine, *control_, message_));
      return;
    }
    absl::StatusOr<Admission::Ticket> ticket = host_.admission.Enter(*method_.kind);
    if (!ticket.ok()) {
      Answer(ticket.status());
      return;
    }
    auto self = this->shared_from_this();
    ticket_ = *std::move(ticket);
    registration_ = host_.calls.Add(control_, [weak = std::weak_ptr<UnaryCall>(self)] {
      if (const auto call = weak.lock()) call->OnStopped();
    });
    host_.workers.Run([self] { self->Work(); });
  }

  void Work() {
    if (!control_->stopped()) Answer(method_.handle(host_.engine, *control_, message_));
    registration_ = {};
    ticket_ = {};
  }

  void OnDone() {
    if (!context_.IsCancelled() || control_ == nullptr) return;
    absl::Status why = control_->Overdue(host_.engine.clock());
    if (why.ok()) why = absl::CancelledError("the client left");
    if (control_->Stop(std::move(why))) OnStopped();
  }

  void OnStopped() {
    host_.engine.slots.Wake();
    Answer(control_->status());
  }

  // The first answer counts.
  void Answer(const absl::StatusOr<typename Method::Response>& response) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(answered_, true)) return;
    if constexpr (requires { response->reduction().has_state(); }) {
      if (response.ok() && response->reduction().has_state()) {
        host_.admission.StateGivenOut(host_.engine.clock());
      }
    }
    void* tag = finish_tag_.Arm([call = this->shared_from_this()](bool) {});
    if (response.ok()) {
      writer_.Finish(*response, grpc::Status::OK, tag);
    } else {
      writer_.FinishWithError(ToGrpcStatus(response.status()), tag);
    }
    LogCall(method_.name, response.status(), message_.ByteSizeLong(), host_.engine.clock() - start_,
            RequestId());
  }

  // For the log: empty where the method has none, or where it is not fit to be printed.
  std::string RequestId() const {
    if constexpr (requires { message_.request_id(); }) {
      if (CheckRequestId(message_.request_id()).ok()) return message_.request_id();
    }
    return "";
  }

  CallHost& host_;
  const Method& method_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::ServerContext context_;
  typename Method::Message message_;
  grpc::ServerAsyncResponseWriter<typename Method::Response> writer_{&context_};
  CompletionTag request_tag_;
  CompletionTag done_tag_;
  CompletionTag finish_tag_;
  absl::Time start_;
  std::shared_ptr<CallControl> control_;  // null until the call has come
  Admission::Ticket ticket_;
  CallRegistry::Registration registration_;

  std::mutex mutex_;
  bool answered_ = false;  // guarded by mutex_
};

}  // namespace warpfold::server
