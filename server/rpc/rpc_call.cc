// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/rpc_call.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/metadata.h"
#include "proto/text.h"
#include "server/core/trace_context.h"
#include "server/rpc/caller_identity.h"
#include "server/rpc/status_translation.h"

namespace warpfold::server {
namespace {

// A longer name is ignored.
constexpr std::size_t kMaxArrayNameBytes = 64;
// The current version has 55 characters; a later one may have more.
constexpr std::size_t kMaxTraceparentBytes = 256;
constexpr std::size_t kMaxExpectBytes = 64;

// A typical lower bound of the slice size of large messages; used only to reserve the vector.
constexpr std::size_t kUsualSliceBytes = std::size_t{16} << 10;

// The buffer's slices. The buffer has the references to them, and becomes the message's owner.
std::optional<Message> MessageOf(grpc::ByteBuffer& buffer) {
  auto owner = std::make_shared<grpc::ByteBuffer>();
  owner->Swap(&buffer);
  grpc::ProtoBufferReader reader(owner.get());
  if (!reader.status().ok()) return std::nullopt;
  Message message;
  message.slices.reserve(owner->Length() / kUsualSliceBytes + 2);
  const void* data = nullptr;
  int size = 0;
  while (reader.Next(&data, &size)) {
    message.slices.emplace_back(static_cast<const std::byte*>(data), static_cast<std::size_t>(size));
  }
  message.owner = std::move(owner);
  return message;
}

// The value of a header that the client sent once; "" if there is none, several, or one with more than
// `most_bytes`.
absl::string_view HeaderOf(const grpc::ServerContextBase& context, const char* name, std::size_t most_bytes) {
  const auto [found, end] = context.client_metadata().equal_range(name);
  if (found == end || std::next(found) != end || found->second.size() > most_bytes) return "";
  return {found->second.data(), found->second.size()};
}

// Several tracestate headers form one list (W3C Trace Context, 3.3.1.1); "" if it exceeds the maximum.
std::string TracestateOf(const grpc::ServerContextBase& context) {
  std::string state;
  const auto [begin, end] = context.client_metadata().equal_range("tracestate");
  for (auto header = begin; header != end && state.size() <= kMaxTracestateBytes; ++header) {
    absl::StrAppend(&state, state.empty() ? "" : ",",
                    absl::string_view(header->second.data(), header->second.size()));
  }
  return state.size() <= kMaxTracestateBytes ? state : "";
}

// The call's place in the caller's trace, if it has one. The standard says that the state is ignored without
// it, and that a traceparent that comes twice counts as none. The members of the state are not checked.
std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context) {
  std::optional<TraceContext> trace =
      ParseTraceparent(HeaderOf(context, "traceparent", kMaxTraceparentBytes));
  std::string state = TracestateOf(context);
  if (trace.has_value() && IsText(state, kMaxTracestateBytes)) trace->state = std::move(state);
  return trace;
}

// gRPC takes the bytes as they are.
grpc::ByteBuffer BufferOf(std::string bytes) {
  auto owner = std::make_unique<std::string>(std::move(bytes));
  const auto free = [](void* owned) { delete static_cast<std::string*>(owned); };
  const std::size_t size = owner->size();
  char* const data = owner->data();
  const grpc::Slice slice(data, size, free, owner.release());
  return grpc::ByteBuffer(&slice, 1);
}

// How long it is until the deadline, by the clock by which gRPC measures it, too. Clients without a deadline
// may send one 300 years ahead: gRPC's own conversion counts nanoseconds in 64 bits, which would overflow and
// yield a time in the past.
absl::Duration TimeUntil(gpr_timespec deadline) {
  constexpr std::int64_t kEndlessSeconds = std::int64_t{1} << 33;
  const gpr_timespec left =
      gpr_time_sub(gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC), gpr_now(GPR_CLOCK_MONOTONIC));
  if (left.tv_sec >= kEndlessSeconds) return absl::InfiniteDuration();
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace

void RpcCall::Operation::OnEvent(bool ok) {
  RpcCall* const call = call_;
  --call->operations_;
  (call->*on_event_)(ok);
  if (call->operations_ == 0) delete call;
}

RpcCall::RpcCall(RpcShard& shard) : shard_(shard) {}

void RpcCall::Request(RpcShard& shard) {
  auto* const call = new RpcCall(shard);  // destroyed by its last operation
  call->context_.AsyncNotifyWhenDone(call->done_.Begin());
  shard.methods().RequestCall(&call->context_, &call->stream_, shard.queue(), shard.queue(),
                              call->requested_.Begin());
}

void RpcCall::OnRequested(bool ok) {
  if (!ok) {
    // The server shuts down; gRPC reports the end only of calls that began.
    done_.Forget();
    return;
  }
  if (shard_.accepting()) Request(shard_);
  const absl::Time deadline = shard_.core().service().clock() + TimeUntil(context_.raw_deadline());
  std::optional<TraceContext> trace = TraceOf(context_);
  if (trace.has_value()) context_.AddTrailingMetadata("traceresponse", ToTraceresponse(*trace));
  CallerIdentity caller = IdentityOf(context_);
  core_.emplace(shard_.core(), static_cast<Transport&>(*this),
                CallInfo{.method = context_.method(),
                         .peer = std::move(caller.peer),
                         .array = std::string(HeaderOf(context_, metadata::kArray, kMaxArrayNameBytes)),
                         .identity = std::move(caller.identity),
                         .trace = std::move(trace),
                         .deadline = deadline,
                         .expects_admission =
                             HeaderOf(context_, metadata::kExpect, kMaxExpectBytes) == metadata::kAdmission});
  core_->Begin();
}

void RpcCall::OnRead(bool ok) {
  if (!ok) {
    // Either the client has half-closed the stream, or it has disconnected. In the second case gRPC reports
    // OnDone next. The alarm queues OnNoMore behind it, so that a disconnect is seen first.
    no_more_alarm_.emplace();
    return no_more_alarm_->Set(shard_.queue(), gpr_inf_past(GPR_CLOCK_REALTIME), no_more_.Begin());
  }
  std::optional<Message> message = MessageOf(incoming_);
  // A message that cannot be read counts as a broken stream.
  if (!message.has_value()) return core_->OnEnd();
  core_->OnMessage(*std::move(message));
}

void RpcCall::OnSent(bool ok) {
  if (ok) core_->OnSent();
}

void RpcCall::OnFinished(bool) { core_->OnDelivered(); }

void RpcCall::OnDone(bool) {
  if (core_.has_value() && context_.IsCancelled()) core_->OnDisconnected();
}

void RpcCall::OnNoMore(bool) { core_->OnEnd(); }

void RpcCall::Read() { stream_.Read(&incoming_, read_.Begin()); }

void RpcCall::TellAdmitted() {
  has_sent_ = true;
  context_.AddInitialMetadata(metadata::kAdmitted, metadata::kYes);
  stream_.SendInitialMetadata(told_.Begin());
}

void RpcCall::Send(std::string message, bool is_followed) {
  grpc::WriteOptions options;
  // The first message goes with the call's metadata, whose end gRPC reports only once they are written.
  if (is_followed && has_sent_) options.set_buffer_hint();
  has_sent_ = true;
  stream_.Write(BufferOf(std::move(message)), options, sent_.Begin());
}

void RpcCall::Answer(const absl::Status& status, std::optional<std::string> response) {
  if (status.ok() && response.has_value()) {
    stream_.WriteAndFinish(BufferOf(*std::move(response)), grpc::WriteOptions(), grpc::Status::OK,
                           finished_.Begin());
  } else {
    stream_.Finish(ToGrpcStatus(status), finished_.Begin());
  }
}

}  // namespace warpfold::server
