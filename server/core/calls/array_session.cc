// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/array_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "proto/text.h"
#include "server/core/bad_request.h"

namespace warpfold::server {
namespace {

absl::Status BadOrder(StreamState state) {
  constexpr absl::string_view kExpected[kStreamStates] = {
      "the first message must be a header",
      "only chunks and one commit may follow the header, and lengths of segments if it is a segment header "
      "without segment_length",
      "nothing may follow a header with a reference, except for lengths of segments if it is a segment "
      "header",
      "nothing may follow the commit", "the stream has already been answered"};
  return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadOrder,
                        kExpected[static_cast<std::size_t>(state)]);
}

}  // namespace

StageTimes StagesOf(const ReducerTimings& timings, std::optional<absl::Duration> receive) {
  const auto occurred = [](absl::Duration time) {
    return time > absl::ZeroDuration() ? std::optional(time) : std::nullopt;
  };
  return {.queue = timings.queue,
          .receive = receive,
          .copy = occurred(timings.copy),
          .kernel = occurred(timings.kernel)};
}

v1::ServerTimings TimingsToProto(const ReducerTimings& timings, std::optional<absl::Duration> receive) {
  v1::ServerTimings out;
  out.set_queue_ns(absl::ToInt64Nanoseconds(timings.queue.value_or(absl::ZeroDuration())));
  out.set_receive_ns(absl::ToInt64Nanoseconds(receive.value_or(absl::ZeroDuration())));
  out.set_copy_ns(absl::ToInt64Nanoseconds(timings.copy));
  out.set_kernel_ns(absl::ToInt64Nanoseconds(timings.kernel));
  return out;
}

absl::Status CheckText(absl::string_view field, const std::string& text) {
  if (IsText(text, kMaxTextBytes)) return absl::OkStatus();
  return BadHeader(field, absl::StrCat("must be at most ", kMaxTextBytes, " printable ASCII characters"));
}

absl::StatusOr<ArraySession::Need> ArraySession::OnMessage(Message message) {
  absl::StatusOr<StreamMessage> parsed = Parse(message.slices);
  if (!parsed.ok()) return parsed.status();
  made_progress_ = (parsed->kind != MessageKind::kChunk && parsed->kind != MessageKind::kLengths) ||
                   parsed->byte_count() > 0;
  const StreamState before = state_;
  const Transition transition = Next(state_, parsed->kind);
  state_ = transition.next;
  return Act(transition.action, before, *std::move(parsed), std::move(message));
}

absl::StatusOr<ArraySession::Need> ArraySession::Act(Action action, StreamState before, StreamMessage parsed,
                                                     Message message) {
  absl::Status status;
  switch (action) {
    case Action::kBegin:
      begin_ = service_.clock();
      status = Begin();
      break;
    case Action::kTake:
      return AfterPlacing(incoming_->Take(std::move(parsed.chunk), std::move(message)));
    case Action::kTakeLengths:
      return AfterLengths(TakeLengths());
    case Action::kCompare:
      receive_time_ = service_.clock() - begin_;
      status = incoming_->Compare(parsed.commit);
      if (status.ok()) status = OnCommitted();
      if (!status.ok()) break;
      // The device need not wait for the end of the stream.
      status = TryFinish().status();
      break;
    default:
      status = BadOrder(before);
      break;
  }
  if (!status.ok()) return status;
  return Need::kMessage;
}

std::optional<absl::Duration> ArraySession::ReceiveTimeUntil(absl::Time end) const {
  return incoming_.has_value() ? std::optional(receive_time_.value_or(end - begin_)) : std::nullopt;
}

absl::StatusOr<ArraySession::Need> ArraySession::AfterPlacing(absl::StatusOr<bool> placed) {
  if (!placed.ok()) return placed.status();
  if (!*placed) return Need::kDevice;
  if (finishing_) return Finish();
  if (absl::Status status = sink_->Pause(); !status.ok()) return status;
  return Need::kMessage;
}

absl::StatusOr<ArraySession::Need> ArraySession::AfterLengths(absl::StatusOr<bool> placed) {
  if (!placed.ok()) return placed.status();
  placing_lengths_ = !*placed;
  if (!*placed) return Need::kDevice;
  if (sink_ != nullptr) {
    if (absl::Status status = sink_->Pause(); !status.ok()) return status;
  }
  return Need::kMessage;
}

absl::StatusOr<ArraySession::Need> ArraySession::OnEnd() {
  const StreamState before = state_;
  const Transition transition = Next(state_, MessageKind::kEnd);
  state_ = transition.next;
  switch (transition.action) {
    case Action::kAnswer:
      return Finish();
    case Action::kTruncated:
      return kernels::Error(absl::StatusCode::kDataLoss, reason::kNoCommit,
                            "the stream ended before a commit: the array may be truncated");
    default:
      return BadOrder(before);
  }
}

absl::StatusOr<ArraySession::Need> ArraySession::Finish() {
  finishing_ = true;
  if (incoming_.has_value() && incoming_->is_placing()) return Need::kDevice;
  const absl::StatusOr<bool> finished = TryFinish();
  if (!finished.ok()) return finished.status();
  return *finished ? Need::kNothing : Need::kDevice;
}

absl::StatusOr<ArraySession::Need> ArraySession::Resume() {
  if (absl::Status status = SinkStatus(); !status.ok()) return status;
  if (incoming_.has_value() && incoming_->is_placing()) return AfterPlacing(incoming_->Place());
  if (placing_lengths_) return AfterLengths(PlaceLengths());
  if (finishing_) return Finish();
  if (state_ == StreamState::kCommitted || state_ == StreamState::kElsewhere) {
    if (absl::Status status = TryFinish().status(); !status.ok()) return status;
  }
  return Need::kMessage;
}

void ArraySession::Release() {
  if (incoming_.has_value()) incoming_->Release();
}

}  // namespace warpfold::server
