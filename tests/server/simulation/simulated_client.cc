// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/server/simulation/simulated_client.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "kernels/error.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using Kind = Admission::Kind;

// While a call waits for a slot, another may start the one that it holds, and one more if it is ahead. A call
// of another party may do so for each call of the waiting one's party that is ahead of it.
constexpr int kMaxStartsOfOther = 2;

absl::string_view HostOf(absl::string_view peer) { return peer.substr(0, peer.find_last_of(':')); }

}  // namespace

int Ledger::OfKind(const std::array<int, Admission::kKinds>& counts, Kind kind) {
  const auto count = [&](Kind k) { return counts[static_cast<std::size_t>(k)]; };
  const bool reduces = kind == Kind::kReduction || kind == Kind::kArray;
  return reduces ? count(Kind::kReduction) + count(Kind::kArray) : count(kind);
}

int Ledger::Inside(Kind kind) const {
  return std::accumulate(inside.begin(), inside.end(), 0,
                         [kind](int sum, const auto& host) { return sum + OfKind(host.second, kind); });
}

int& Ledger::Count(const std::string& peer, Kind kind) {
  return inside[std::string(HostOf(peer))][static_cast<std::size_t>(kind)];
}

// The rule, as rejected clients would put it: the last sixteenth is not for streams, and the last eighth is
// not for a party that has more than half.
bool Ledger::HasPlace(const std::string& peer, Kind kind, int places) {
  const bool has_much = OfKind(inside[std::string(HostOf(peer))], kind) * 2 > places;
  const int kept_from_streams = kind == Kind::kReduction ? places / 16 : 0;
  const int kept_from_this_host = has_much ? places / 8 : 0;
  return places - Inside(kind) > std::max(kept_from_streams, kept_from_this_host);
}

void SimulatedClient::Expect(bool condition, const std::string& what) const {
  if (!condition) ledger_.Expect(false, absl::StrCat(script_.method, ": ", what));
}

void SimulatedClient::Begin() {
  const Limits& limits = shard_.service().limits;
  const std::string& closed =
      script_.kind == Kind::kMerge ? ledger_.closed_to_merges : ledger_.closed_to_reductions;
  if (IsWork(script_.kind) && !closed.empty()) {
    refusal_ = closed;
  } else if (IsWork(script_.kind) &&
             !ledger_.HasPlace(script_.peer, script_.kind, limits.max_concurrent_reductions)) {
    refusal_ = "TOO_MANY_REDUCTIONS";
  }
  begun_ = true;
  begun_at_ = ledger_.now;
  ++ledger_.Count(script_.peer, script_.kind);
  call_.emplace(shard_, static_cast<Transport&>(*this),
                CallInfo{.method = script_.method,
                         .peer = script_.peer,
                         .array = "",
                         .deadline = ledger_.now + script_.patience,
                         .expects_admission = expects_admission_});
  call_->Begin();
  Expect(reading_ || answered_, "neither read nor answered");
  shard_.AfterEvent();
  shard_.BeforeWaiting();
}

bool SimulatedClient::CanSay() const {
  if (!reading_) return false;
  return answered_ || gone_ || next_line_ < script_.says ||
         (script_.ends && next_line_ == script_.lines.size());
}

void SimulatedClient::Say(Random& random) {
  reading_ = false;
  if (answered_ || gone_ || next_line_ == script_.lines.size()) {
    ended_ = true;
    call_->OnEnd();
  } else {
    const Script::Line& line = script_.lines[next_line_++];
    std::vector<std::size_t> cuts = {Below(random, line.bytes.size() + 1),
                                     Below(random, line.bytes.size() + 1)};
    std::sort(cuts.begin(), cuts.end());
    Message message =
        OneIn(random, 4) ? MessageOf(line.bytes, cuts) : heap_.MessageIn(line.bytes, cuts, Below(random, 16));
    message_ = message.owner;
    // A client of segments may also wait because it does not take results, so its waits prove nothing here;
    // and it is not known which client starts a slot to put an array.
    const bool is_chunk = IsReduce(script_) && next_line_ > 1 && next_line_ < script_.lines.size();
    if ((IsStream(script_) || IsReflection(script_)) && line.carries_something) idle_ = absl::ZeroDuration();
    CountProgress(line.array_bytes);
    call_->OnMessage(std::move(message));
    const Turns& turns = shard_.turns();
    while (ledger_.has_turns_at_once && shard_.has_work()) shard_.Work();
    // When messages wait for their turns, this one perhaps does not wait for a slot yet.
    waits_for_slot_ = is_chunk && !turns.has_waiting();
    counts_in_order_ &= !turns.has_waiting();
    starts_of_others_.clear();
  }
  shard_.AfterEvent();
  shard_.BeforeWaiting();
}

void SimulatedClient::ReportBreak() {
  sending_ = false;
  undelivered_ = false;
  if (std::exchange(keeps_its_place_, false)) GiveUpPlace();
  const bool was_answered = answered_;
  call_->OnDisconnected();
  if (was_answered) ledger_.arrays.OnNotDelivered(put_);
  Expect(answered_, "not answered when the client left");
  shard_.AfterEvent();
  shard_.BeforeWaiting();
}

void SimulatedClient::Confirm() {
  sending_ = false;
  ++taken_;
  if (std::exchange(keeps_its_place_, false)) GiveUpPlace();
  if (TakesMessages(script_)) {
    idle_ = absl::ZeroDuration();
    CountProgress(sending_bytes_);
  }
  const bool awaits_more = std::exchange(is_followed_, false) && !answered_;
  call_->OnSent();
  Expect(!awaits_more || sending_ || answered_, "a message was to wait for another, and none follows");
  shard_.AfterEvent();
  shard_.BeforeWaiting();
}

void SimulatedClient::TakeAnswer() {
  undelivered_ = false;
  call_->OnDelivered();
  shard_.AfterEvent();
}

void SimulatedClient::TimePasses(absl::Duration time) {
  if (answered_) unseen_ += time;
  if (!IsAwaited() || answered_) return;
  idle_ += time;
  if (!IsReflection(script_)) slow_ += time;
}

void SimulatedClient::OnTick() { untaken_ += std::min(std::exchange(unseen_, {}), WatchedTime::kLongestGap); }

void SimulatedClient::OnOwnStart(bool failed) {
  Expect(!answered_, "starts a slot after its answer");
  start_failed_ |= failed;
  starts_of_others_.clear();
}

void SimulatedClient::OnStartOfOther(std::uint64_t other, bool same_party, int party_size) {
  if (!waits_for_slot_ || reading_ || answered_) return;
  const int ahead = same_party ? 1 : party_size;
  Expect(++starts_of_others_[other] <= kMaxStartsOfOther * ahead,
         "another starts slots again and again while it waits");
}

void SimulatedClient::Check() {
  if (!begun_) return;
  if (reading_ || answered_) {
    waits_for_slot_ = false;
    Expect(IsMessageLetGo(), "a message is kept that nobody needs");
  }
  Expect(answered_ || !start_failed_, "a failed start is not noticed");
  if (told_serving_.has_value() && !sending_ && !answered_) {
    Expect(*told_serving_ == shard_.service().serving, "a watch that knows the last health only");
  }
}

bool SimulatedClient::IsMessageLetGo() const {
  const SlotPool& slots = shard_.slots();
  const bool keeps_pieces = shard_.service().backend.slots().front()->KeepsPieces();
  const bool has_pieces = keeps_pieces && slots.free() < slots.size();
  return message_.expired() || has_pieces;
}

bool SimulatedClient::IsOverdue() const {
  const CallLimits& limits = shard_.service().limits.call;
  return ledger_.now >= begun_at_ + script_.patience || ledger_.now - begun_at_ >= limits.duration ||
         (IsAwaited() && (idle_ >= MostIdle() || slow_ >= (counts_in_order_ ? 2 : 4) * idle_limit_));
}

// A client that has yet to send its one message has less time: always, or, if that is large, while places are
// short.
absl::Duration SimulatedClient::LeastIdle() const {
  const bool is_whole = script_.kind == Kind::kArray || script_.kind == Kind::kMerge;
  return is_whole && next_line_ == 0 ? std::min(idle_limit_, kCheckIdle) : MostIdle();
}

absl::Duration SimulatedClient::MostIdle() const {
  return script_.kind == Kind::kSmall && next_line_ == 0 ? std::min(idle_limit_, kCheckIdle) : idle_limit_;
}

bool SimulatedClient::HasKeptAnswerWaiting() const {
  const bool ends = ledger_.stopped || ledger_.device_lost || !shard_.service().device.fault().ok();
  return ends || untaken_ >= shard_.service().limits.call.idle;
}

void SimulatedClient::CheckTime() const {
  Expect(!undelivered_ || untaken_ < shard_.service().limits.call.idle,
         "an answer is kept that nobody takes");
  if (!begun_ || answered_ || told_serving_.has_value()) return;
  Expect(!IsOverdue(), "is overdue");
}

void SimulatedClient::TellAdmitted() {
  Expect(expects_admission_, "told of an admission that it did not ask for");
  Expect(!told_admitted_ && !answered_, "told of its admission twice, or after the answer");
  Expect(refusal_.empty(), "told that it is admitted where there is no place");
  told_admitted_ = true;
}

void SimulatedClient::Read() {
  Expect(told_admitted_ == expects_admission_, "awaited without being told of its admission");
  Expect(refusal_.empty(), "admitted where there is no place");
  Expect(!reading_, "two reads at once");
  Expect(!answered_, "a read after the answer");
  Expect(!ended_, "a read after the end");
  Expect(IsMessageLetGo(), "a read while it holds a message");
  const Admission& admission = shard_.service().admission;
  Expect(admission.in_progress() == ledger_.Inside(Kind::kReduction) + ledger_.Inside(Kind::kMerge),
         "a read without admission");
  reading_ = true;
}

void SimulatedClient::Send(std::string message, bool is_followed) {
  Expect(!sending_, "two messages sent at once");
  is_followed_ = is_followed;
  Expect(!answered_, "a message after the answer");
  if (IsSegments(script_)) return TakePart(message);
  if (IsReflection(script_)) return TakeReflection(message);
  Expect(script_.kind == Kind::kWatch, "a message that does not end the call");
  grpc::health::v1::HealthCheckResponse response;
  Expect(response.ParseFromString(message), "no health");
  const bool serving = response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
  Expect(told_serving_ != serving, "told what it knows");
  told_serving_ = serving;
  sending_ = true;
}

void SimulatedClient::Answer(const absl::Status& status, std::optional<std::string> response) {
  Expect(!answered_, "answered twice");
  if (answered_) return;
  if (status.ok()) {
    JudgeResult(response.value_or(""));
  } else {
    JudgeError(status);
    Expect(response.value_or("").empty(), "a response with an error");
  }
  answered_ = true;
  undelivered_ = true;
  Expect(!status.ok() || !sending_, "an answer before what was sent before it is taken");
  keeps_its_place_ = sending_;
  const std::string reason = kernels::ErrorReason(status);
  ++ledger_.answers[reason.empty() ? absl::StatusCodeToString(status.code()) : reason];
  if (!keeps_its_place_) GiveUpPlace();
}

void SimulatedClient::TakePart(const std::string& message) {
  Expect(reader_.Add(message), "results that contradict what came before");
  sending_bytes_ = message.size();
  sending_ = true;
}

// Its bytes are no progress.
void SimulatedClient::TakeReflection(const std::string& message) {
  grpc::reflection::v1::ServerReflectionResponse response;
  Expect(response.ParseFromString(message), "no answer of reflection");
  Expect(response.original_request().SerializeAsString() == script_.lines[taken_].bytes,
         "an answer to another question");
  sending_bytes_ = 0;
  sending_ = true;
}

void SimulatedClient::CountProgress(std::size_t bytes) {
  said_since_ += bytes;
  if (said_since_ < shard_.service().limits.call.pace_bytes) return;
  slow_ = absl::ZeroDuration();
  said_since_ = 0;
}

// As gRPC does: the call learns of it later.
void SimulatedClient::CutOff() {
  Expect(answered_ && (sending_ || undelivered_) && HasKeptAnswerWaiting(), "cut off without need");
  sending_ = false;
  undelivered_ = false;
  if (std::exchange(keeps_its_place_, false)) GiveUpPlace();
  gone_ = true;
}

// With the values that are elsewhere.
std::vector<std::vector<std::uint64_t>> SimulatedClient::RowsOf(const SegmentReader& reader) const {
  std::vector<std::vector<std::uint64_t>> rows = reader.rows().rows;
  for (std::size_t row = 0; script_.has_columns && row < rows.size(); ++row) {
    for (std::size_t at = row; at < script_.columns.size(); at += script_.rows.size()) {
      rows[row].push_back(script_.columns[at]);
    }
  }
  return rows;
}

void SimulatedClient::JudgeResult(const std::string& response) {
  Expect(refusal_.empty(), "an answer where there is no place");
  // A broken connection ends the questions, too.
  if (IsReflection(script_) && gone_) return;
  if (!gone_ || next_line_ == 0 || next_line_ != script_.whole_after) {
    Expect(script_.reason.empty(), "a result instead of " + script_.reason);
    Expect(next_line_ == script_.lines.size(), "a result of what has not come");
  }
  Expect(ended_ || !IsStream(script_), "a result before the end");
  Expect(!slot_failed_ && !start_failed_, "a result of a device that failed");
  if (IsOfArrayService(script_)) {
    const std::string wrong = ledger_.arrays.Judge(shard_.service(), script_, response, &put_);
    return Expect(wrong.empty(), wrong);
  }
  if (IsReflection(script_)) return Expect(taken_ == next_line_, "an end before all answers");
  Expect(!response.empty(), "no response");
  if (IsSegments(script_)) {
    SegmentReader whole = reader_;
    Expect(whole.Add(response) && whole.has_summary(), "a summary of other results");
    Expect(RowsOf(whole) == script_.rows, "other results than those of the segments one by one");
  }
  if (!script_.reduction.empty()) {
    Expect(WhatCounts(response) == script_.reduction, "another result than that of a single pass");
  }
}

void SimulatedClient::JudgeError(const absl::Status& status) const {
  const std::string reason = kernels::ErrorReason(status);
  bool deserved = !reason.empty() && reason == script_.reason;
  if (reason == "NO_COMMIT") deserved = ended_ && (deserved || gone_);
  // Lengths of an array that lies there have no commit.
  if (reason == "COUNT_MISMATCH" && gone_ && IsSegments(script_)) deserved = deserved || ended_;
  // A message that came before the client left may have had to wait for its turn.
  if (reason == "BAD_MESSAGE" && gone_) deserved = deserved || ended_;
  if (!refusal_.empty()) deserved = reason == refusal_ && !reading_;
  if (reason == "DRAINING" && refusal_.empty()) deserved = ledger_.stopped && IsWork(script_.kind);
  const bool is_lost = !shard_.service().device.fault().ok();
  const bool of_arrays = ledger_.arrays.Deserves(shard_.service(), script_, reason);
  if (reason == "DEVICE_LOST" && refusal_.empty()) {
    deserved = slot_failed_ || start_failed_ || is_lost || of_arrays;
  }
  if (reason == "UNKNOWN_MEMORY" || reason == "RESIDENT_FULL") deserved = of_arrays;
  const CallLimits& limits = shard_.service().limits.call;
  if (reason == "IDLE") deserved = IsAwaited() && idle_ >= LeastIdle();
  if (reason == "RATE") deserved = IsAwaited() && (slow_ >= 2 * idle_limit_ || !counts_in_order_);
  if (reason == "DEADLINE") deserved = ledger_.now >= begun_at_ + script_.patience;
  if (reason == "DURATION") deserved = ledger_.now - begun_at_ >= limits.duration;
  if (absl::IsCancelled(status)) deserved = gone_;
  Expect(deserved, absl::StrCat("answered ", status.ToString(), " instead of ",
                                script_.reason.empty() ? "a result" : script_.reason));
}

}  // namespace warpfold::server
