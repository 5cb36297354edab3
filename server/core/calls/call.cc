// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "proto/limits.h"
#include "server/core/admission/party.h"
#include "server/core/bad_request.h"
#include "server/core/calls/put_session.h"
#include "server/core/calls/reduce_session.h"
#include "server/core/calls/segment_session.h"
#include "server/core/calls/shard.h"

namespace warpfold::server {
namespace {

// Other calls have small requests and take microseconds.
bool TakesTurns(Method method) {
  switch (method) {
    case Method::kReduce:
    case Method::kReduceArray:
    case Method::kReduceSegments:
    case Method::kPutArray:
    case Method::kMerge:
    case Method::kListArrays:
      return true;
    default:
      return false;
  }
}

// The pace is for arrays. Questions to reflection are short, however fast they come.
CallLimits LimitsOf(Method method, CallLimits limits) {
  if (method == Method::kReflection) limits.pace_bytes = 0;
  return limits;
}

// The session parses what follows a header, and rejects it if necessary.
std::uint64_t MostRequestBytes(Method method) {
  return method == Method::kListArrays ? kMaxSmallRequestBytes : kMaxPayloadBytes + kMaxFramingBytes;
}

}  // namespace

Call::Call(Shard& shard, Transport& transport, CallInfo info)
    : shard_(shard),
      transport_(transport),
      info_(std::move(info)),
      party_(PartyOf(info_.identity, info_.peer)),
      method_(MethodOf(info_.method)),
      timer_(shard.Now(), info_.deadline, LimitsOf(method_, shard.service().limits.call)) {}

Call::~Call() { shard_.Remove(this); }

void Call::Begin() {
  shard_.Add(this);
  if (CallObserver* const observer = shard_.service().observer; observer != nullptr) {
    live_ = std::make_shared<LiveCall>();
    live_->method = MethodName();
    live_->peer = info_.peer;
    live_->identity = info_.identity;
    live_->trace = info_.trace;
    live_->begin = timer_.start();
    observer->OnBegin(live_);
  }
  const bool is_off = method_ == Method::kReflection && !shard_.service().reflection;
  if (method_ == Method::kUnknown || is_off) {
    Answer(kernels::Error(absl::StatusCode::kUnimplemented, reason::kUnknownMethod,
                          "this server does not have the method"));
  } else if (absl::Status denied = shard_.service().access.Check(info_.identity, method_); !denied.ok()) {
    Answer(denied);
  } else {
    Admit();
  }
}

Admission::Kind Call::KindOf(Method method) {
  switch (method) {
    case Method::kReduce:
    case Method::kReduceSegments:
    case Method::kPutArray:
      return Admission::Kind::kReduction;
    case Method::kReduceArray:
      return Admission::Kind::kArray;
    case Method::kMerge:
      return Admission::Kind::kMerge;
    case Method::kHealthCheck:
    case Method::kHealthWatch:  // until BeginWatch
      return Admission::Kind::kCheck;
    default:
      return Admission::Kind::kSmall;
  }
}

void Call::Admit() {
  absl::StatusOr<Admission::Ticket> ticket =
      shard_.service().admission.Enter(KindOf(method_), {.array = info_.array, .party = party_});
  if (!ticket.ok()) return Answer(ticket.status());
  ticket_ = *std::move(ticket);
  if (info_.expects_admission) transport_.TellAdmitted();
  session_ = MakeSession();
  if (TakesTurns(method_)) turns_.emplace(shard_.turns(), party_, [this] { TakeMessage(); });
  if (!info_.array.empty()) ticket_.MarkAsPart();
  Read();
}

std::unique_ptr<ArraySession> Call::MakeSession() {
  Service& service = shard_.service();
  const PartySlots slots(shard_.slots(), party_);
  auto listener = [this] { OnProgress(); };
  switch (method_) {
    case Method::kReduce:
      return std::make_unique<ReduceSession>(service, slots, std::move(listener));
    case Method::kReduceArray:
      return std::make_unique<ReduceArraySession>(service, slots, shard_.plans(), std::move(listener));
    case Method::kReduceSegments:
      return std::make_unique<SegmentSession>(service, slots, std::move(listener));
    case Method::kPutArray:
      return std::make_unique<PutSession>(service, slots, std::move(listener));
    default:
      return nullptr;
  }
}

void Call::Read() {
  if (reading_ || answered_) return;
  reading_ = true;
  timer_.AwaitClient(shard_.Now());
  if (turns_.has_value()) turns_->Expect();
  transport_.Read();
}

void Call::OnMessage(Message message) {
  if (answered_) {
    reading_ = false;
    return;
  }
  if (!outgoing_.is_under_way) timer_.ClientCame(shard_.Now());
  arrived_ = std::move(message);
  arrived_at_ = shard_.Now();
  // Messages that are too large are rejected at once, so that they do not wait here for their turn.
  const bool is_too_large = TotalBytes(arrived_->slices) > MostRequestBytes(method_);
  if (!turns_.has_value() || is_too_large) return TakeMessage();
  const Turns::Arrival arrival = TurnArrival();
  if (turns_->Ask(arrival)) return TakeMessage();
  // It may wait for seconds if the device is slow. Bulk is never without bytes.
  if (arrival.kind == Turns::Kind::kBulk) ReportProgress(arrived_at_);
}

// About how many bytes of an array the thread could process in the time that the message takes: a merge of
// small states takes 90 times as long for each byte, one of large states 7 times (docs/adr/0091). A list may
// be short or long, whatever its request.
//
// A header or a commit needs no slot, and neither does a small array if there is a GPU, or a small piece of
// one.
Turns::Arrival Call::TurnArrival() const {
  constexpr std::uint64_t kMergeFactor = 32;
  constexpr std::uint64_t kListBytes = std::uint64_t{1} << 20;
  constexpr std::uint64_t kMaxOfLightMessage = 1 << 10;
  constexpr std::uint64_t kMaxOfLightArray = kSmallArrayBytes + kMaxOfLightMessage;
  const std::uint64_t bytes = TotalBytes(arrived_->slices);
  Turns::Arrival arrival = {.costs_bytes = bytes, .bytes = bytes, .kind = Turns::Kind::kLight};
  if (method_ == Method::kMerge) {
    arrival.costs_bytes *= kMergeFactor;
  } else if (method_ == Method::kListArrays) {
    arrival.costs_bytes = kListBytes;
  } else if (bytes > (method_ == Method::kReduceArray ? kMaxOfLightArray : kMaxOfLightMessage)) {
    arrival.kind = Turns::Kind::kBulk;
  }
  return arrival;
}

void Call::TakeMessage() {
  reading_ = false;
  Message message = *std::exchange(arrived_, std::nullopt);
  if (session_ == nullptr) return TakeRequest(std::move(message));
  // Bytes that had to leave their slot are copied back to one now, and may have to leave that, too.
  if (const std::uint64_t held = session_->held_bytes(); held > 0 && turns_.has_value()) {
    turns_->Charge(2 * held);
  }
  const absl::StatusOr<ArraySession::Need> need = session_->OnMessage(std::move(message));
  timer_.Reserve(session_->reserved_bytes());
  if (session_->made_progress()) ReportProgress(arrived_at_);
  if (live_ != nullptr) live_->bytes.store(session_->array_bytes(), std::memory_order_relaxed);
  if (session_->returns_state()) ticket_.MarkAsPart();
  Follow(need);
}

void Call::OnEnd() {
  reading_ = false;
  half_closed_ = true;
  if (answered_) return;
  if (turns_.has_value()) turns_->ExpectNothing();
  if (!outgoing_.is_under_way) timer_.ClientCame(shard_.Now());
  CheckTime(shard_.Now(), shard_.Now());  // gRPC ends the streams of calls whose deadline has passed
  if (answered_) return;
  if (session_ != nullptr) return Follow(session_->OnEnd());
  if (method_ == Method::kReflection) return Answer(absl::OkStatus());
  if (watch_.is_requested) return BeginWatch();
  Answer(BadMessage("the call ended before its request"));
}

void Call::OnProgress() {
  if (!answered_) Follow(session_->Resume());
}

void Call::Follow(const absl::StatusOr<ArraySession::Need>& need) {
  if (!need.ok()) return Answer(need.status());
  if (turns_.has_value()) turns_->SetWaitsForSlot(session_->waits_for_slot());
  SendOutput(*need == ArraySession::Need::kNothing);
  if (*need == ArraySession::Need::kMessage) Read();
  // The answer follows once the client has read what comes before it.
  if (*need == ArraySession::Need::kNothing && !outgoing_.is_under_way) AnswerSession();
}

// `is_last`: the session makes no more output than it already has, and its answer follows.
void Call::SendOutput(bool is_last) {
  if (outgoing_.is_under_way || !session_->has_output()) return;
  timer_.AwaitClient(shard_.Now());
  std::string message = session_->TakeOutput();
  Send(std::move(message), is_last || session_->has_output());
}

void Call::Send(std::string message, bool is_followed) {
  outgoing_.is_under_way = true;
  outgoing_.bytes = message.size();
  outgoing_.held_bytes = is_followed ? std::min<std::uint64_t>(message.size(), kMaxHeldByTransport) : 0;
  transport_.Send(std::move(message), is_followed);
}

void Call::OnOutputTaken() {
  if (!awaits_message()) timer_.ClientCame(shard_.Now());
  taken_bytes_ += outgoing_.bytes;
  ReportProgress(shard_.Now());
  OnProgress();
}

void Call::ReportProgress(absl::Time when) {
  timer_.Progress(when, session_->progress_bytes() + taken_bytes_);
}

void Call::AnswerSession() {
  absl::StatusOr<std::string> response = session_->Response();
  if (!response.ok()) return Answer(response.status());
  if (session_->returns_state()) shard_.service().admission.StateGivenOut(shard_.Now());
  Answer(absl::OkStatus(), *std::move(response));
}

void Call::OnSent() {
  outgoing_.is_under_way = false;
  if (answered_) {
    ticket_ = {};
  } else if (session_ != nullptr) {
    OnOutputTaken();
  } else if (method_ == Method::kReflection) {
    timer_.Progress(shard_.Now(), 0);
    Read();  // one answer at a time: a client that does not read it is not asked for more
  } else {
    SendHealth();
  }
}

void Call::OnHealthChanged() {
  if (!answered_ && method_ == Method::kHealthWatch && watch_.told_serving.has_value()) SendHealth();
}

void Call::OnDelivered() { pending_answer_.reset(); }

void Call::OnDisconnected() {
  outgoing_.is_under_way = false;  // to nobody
  pending_answer_.reset();
  if (answered_) {
    ticket_ = {};
    if (session_ != nullptr) session_->OnNotDelivered();
    return;
  }
  const absl::Status overdue = timer_.Overdue(shard_.Now());
  Answer(overdue.ok() ? absl::CancelledError("the client left") : overdue);
}

void Call::Stop(const absl::Status& why) {
  if (session_ != nullptr || method_ == Method::kMerge) End(why);
}

void Call::End(const absl::Status& why) {
  stopped_ = true;
  if (!answered_) Answer(why);
}

void Call::Answer(const absl::Status& status, std::optional<std::string> response) {
  answered_ = true;
  const absl::Time now = shard_.Now();
  untaken_.Advance(now);
  const std::uint64_t answer_bytes = outgoing_.held_bytes + (response.has_value() ? response->size() : 0);
  pending_answer_.emplace(shard_.service().answers, party_, answer_bytes, half_closed_);
  transport_.Answer(status, std::move(response));
  // The client is not kept waiting while observers are told.
  CallRecord record;
  if (live_ != nullptr) {
    record.method = live_->method;
    record.peer = info_.peer;
    record.identity = info_.identity;
    record.trace = info_.trace;
    record.status = status;
    record.took = now - timer_.start();
    record.reduction = std::exchange(merged_, std::nullopt);
    record.request_id = std::exchange(merge_request_id_, {});
    if (session_ != nullptr) session_->Describe(now, &record);
  }
  if (turns_.has_value()) {
    if (status.ok()) {
      turns_->Expect();
    } else {
      turns_->ExpectNothing();
    }
  }
  turns_.reset();
  arrived_.reset();
  if (session_ != nullptr) session_->Release();
  if (!outgoing_.is_under_way) ticket_ = {};
  if (live_ != nullptr) shard_.service().observer->OnEnd(live_, record);
}

std::string Call::MethodName() const {
  if (method_ == Method::kUnknown) return "unknown";  // the client's text stays out of the log
  return info_.method.substr(info_.method.rfind('/') + 1);
}

}  // namespace warpfold::server
