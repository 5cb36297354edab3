// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/call_control.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::server {
namespace {

absl::Status LimitError(absl::string_view reason, absl::string_view what, const char* limit_name,
                        absl::Duration limit) {
  const std::string seconds = absl::StrCat(absl::ToInt64Seconds(limit));
  return kernels::Error(absl::StatusCode::kDeadlineExceeded, reason,
                        absl::StrCat(what, " ", limit_name, " = ", seconds),
                        {{"limit", limit_name}, {"seconds", seconds}});
}

}  // namespace

CallControl::CallControl(absl::Time start, absl::Time deadline, CallLimits limits)
    : start_(start), deadline_(deadline), limits_(limits), progress_(start) {}

void CallControl::MessageCame() {
  const std::lock_guard lock(mutex_);
  ++messages_at_hand_;
}

void CallControl::MessageDone() {
  const std::lock_guard lock(mutex_);
  --messages_at_hand_;
}

void CallControl::Progress(absl::Time now) {
  const std::lock_guard lock(mutex_);
  progress_ = now;
}

absl::Status CallControl::Overdue(absl::Time now) const {
  if (now >= deadline_) {
    return kernels::Error(absl::StatusCode::kDeadlineExceeded, "DEADLINE", "the call's deadline has passed");
  }
  if (now - start_ >= limits_.duration) {
    return LimitError("DURATION", "the call outlived", "max_stream_seconds", limits_.duration);
  }
  const std::lock_guard lock(mutex_);
  if (messages_at_hand_ == 0 && now - progress_ >= limits_.idle) {
    return LimitError("IDLE", "no bytes came for", "idle_timeout_seconds", limits_.idle);
  }
  return absl::OkStatus();
}

bool CallControl::Stop(absl::Status why) {
  const std::lock_guard lock(mutex_);
  if (stopped_.load(std::memory_order_relaxed)) return false;
  why_ = std::move(why);
  stopped_.store(true, std::memory_order_release);
  return true;
}

absl::Status CallControl::status() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

}  // namespace warpfold::server
