// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/patience.h"

#include <poll.h>

#include <algorithm>

#include "client/connections/connection.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

// Registering takes up to 0.7 s for each GiB; a server that is full of connections does not respond.
constexpr absl::Duration kLongestSilence = absl::Minutes(2);

}  // namespace

Patience::Patience(const CallOptions& options)
    : options_(options),
      deadline_(SteadyNow() + options.timeout),
      silence_ends_(SteadyNow() + kLongestSilence) {}

void Patience::Sent() { silence_ends_ = SteadyNow() + kLongestSilence; }

absl::Status Patience::AwaitAnswer(int socket) {
  while (true) {
    pollfd watched = {.fd = socket, .events = POLLIN, .revents = 0};
    // Rounded up, so that the time is over when poll returns.
    const auto slice_ms = static_cast<int>(absl::ToInt64Milliseconds(Slice() + absl::Microseconds(999)));
    if (poll(&watched, 1, slice_ms) > 0) return absl::OkStatus();
    if (absl::Status status = Check(); !status.ok()) return status;
  }
}

absl::Status Patience::Check() const {
  if (options_.stop.stop_requested() || (options_.keep_going && !options_.keep_going())) {
    return absl::CancelledError("the question on the memory socket was cancelled");
  }
  const absl::Time now = SteadyNow();
  if (now >= deadline_) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, reason::kDeadline,
                     "the memory socket has not answered in time");
  }
  if (now >= silence_ends_) return absl::UnavailableError("the memory socket gives no answer");
  return absl::OkStatus();
}

absl::Duration Patience::Slice() const {
  return std::clamp(std::min(deadline_, silence_ends_) - SteadyNow(), absl::ZeroDuration(), kAskedEvery);
}

}  // namespace warpfold
