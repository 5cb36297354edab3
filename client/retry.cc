// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/random/random.h"
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

// False if it was cut short.
bool Sleep(absl::Duration pause, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never_notified;
  std::unique_lock lock(mutex);
  never_notified.wait_for(lock, stop, absl::ToChronoNanoseconds(pause), [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

RetryLoop::RetryLoop(const ClientOptions& options, absl::Time deadline, std::stop_token stop)
    : deadline_(deadline),
      stop_(std::move(stop)),
      attempts_left_(options.max_attempts - 1),
      pause_(options.backoff) {}

bool RetryLoop::Again(const absl::Status& status, bool took_data) {
  if (attempts_left_ <= 0 || !MayRetry(status, took_data)) return false;
  const absl::Duration pause = pause_ * absl::Uniform(absl::BitGen(), 0.8, 1.0);
  if (absl::Now() + pause >= deadline_) return false;
  --attempts_left_;
  pause_ = std::min(pause_ * 2, kLongestPause);
  return Sleep(pause, stop_);
}

}  // namespace warpfold
