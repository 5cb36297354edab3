// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long a Call waits: for its client's messages, for an answer to be read, and in total. call.cc has what
// happens to it.
#include <algorithm>

#include "server/core/calls/call.h"
#include "server/core/calls/shard.h"

namespace warpfold::server {
namespace {

// How long a client has to read its answer when the server ends.
constexpr absl::Duration kLastPatience = absl::Milliseconds(500);

// While there are other events, gRPC may not have sent the answer, and the client may have read it without
// this server having heard of that. Such time counts less. It does count: there may be other events for ever.
constexpr int kBusyDivisor = 8;

}  // namespace

absl::Duration Call::PatienceWithTaker() const {
  const absl::Duration patience =
      shard_.service().answers.Patience(shard_.service().limits.call.idle, party_);
  return stopped_ ? std::min(patience, kLastPatience) : patience;
}

// How long the client may be silent, if that is less than the idle timeout. A unary call sends its message
// together with its headers, so a client that opens such calls and sends nothing could block all others. gRPC
// delivers only complete messages, and one with an array or with states has megabytes; it may therefore take
// longer unless the server is nearly full.
absl::Duration Call::PatienceWithClient() const {
  const Admission::Kind kind = KindOf(method_);
  if (kind == Admission::Kind::kCheck) return kCheckIdle;
  if (timer_.has_come()) return absl::InfiniteDuration();
  const bool is_array = kind == Admission::Kind::kArray || kind == Admission::Kind::kMerge;
  const bool is_short =
      kind == Admission::Kind::kSmall || (is_array && shard_.service().admission.IsNearlyFull(kind));
  return is_short ? kCheckIdle : absl::InfiniteDuration();
}

void Call::CheckTime(absl::Time now, absl::Time idle_at) {
  if (answered_) {
    untaken_.Advance(idle_at);
    const absl::Duration waited = untaken_.Advance(now, stopped_ ? 1 : kBusyDivisor);
    if (!awaits_taker() || waited < PatienceWithTaker()) return;
    outgoing_.is_under_way = false;
    pending_answer_.reset();
    ticket_ = {};
    return transport_.CutOff();
  }
  if (method_ == Method::kHealthWatch && watch_.told_serving.has_value()) return;
  const absl::Status overdue = timer_.Overdue(now, PatienceWithClient());
  if (!overdue.ok()) Answer(overdue);
}

}  // namespace warpfold::server
