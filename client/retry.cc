// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "client/error.h"

namespace warpfold {
namespace {

constexpr absl::Duration kLongestPause = absl::Seconds(5);

bool MayRetry(const absl::Status& status, bool took_data) {
  if (!absl::IsUnavailable(status)) return false;
  if (!took_data) return true;
  // The server refused before it looked at what was already under way to it.
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  return info.has_value() && info->reason == "DRAINING";
}

}  // namespace

RetryLoop::RetryLoop(const ClientOptions& options, const Connection& connection, absl::Time deadline,
                     std::stop_token stop)
    : connection_(connection),
      deadline_(deadline),
      stop_(std::move(stop)),
      attempts_left_(options.max_attempts - 1),
      pause_(options.backoff) {}

bool RetryLoop::Again(const absl::Status& status, bool took_data) {
  if (attempts_left_ <= 0 || !MayRetry(status, took_data)) return false;
  const absl::Duration pause = pause_ * absl::Uniform(absl::BitGen(), 0.8, 1.0);
  if (absl::Now() + pause >= deadline_) return false;
  --attempts_left_;
  pause_ = std::min(pause_ * 2, kLongestPause);
  connection_.PauseAndConnect(pause, stop_);
  // After a stop too: an attempt that starts cancelled says so, where `status` is still the old failure.
  return true;
}

}  // namespace warpfold
