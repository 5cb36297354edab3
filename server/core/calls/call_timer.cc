// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/call_timer.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {
namespace {

absl::Status LimitError(absl::string_view reason, absl::string_view what, const char* limit_name,
                        absl::Duration limit, absl::string_view why = "") {
  const std::string seconds = absl::StrCat(absl::ToInt64Seconds(limit));
  return kernels::Error(absl::StatusCode::kDeadlineExceeded, reason,
                        absl::StrCat(what, " ", limit_name, " = ", seconds, why),
                        {{"limit", limit_name}, {"seconds", seconds}});
}

}  // namespace

CallTimer::CallTimer(absl::Time start, absl::Time deadline, CallLimits limits)
    : start_(start),
      deadline_(deadline),
      limits_(limits),
      pace_bytes_(limits.pace_bytes),
      progress_(start),
      pace_begin_(start),
      client_came_(start) {}

void CallTimer::AwaitClient(absl::Time now) {
  if (awaiting_client_) return;
  awaiting_client_ = true;
  // A time that was restarted meanwhile lost only the time since then.
  progress_ += now - std::max(client_came_, progress_);
  pace_begin_ += now - std::max(client_came_, pace_begin_);
}

void CallTimer::ClientCame(absl::Time now) {
  if (!awaiting_client_) return;
  awaiting_client_ = false;
  has_come_ = true;
  client_came_ = now;
}

void CallTimer::Progress(absl::Time when, std::uint64_t bytes) {
  progress_ = std::max(progress_, when);
  if (bytes - bytes_then_ < pace_bytes_) return;
  pace_begin_ = std::max(pace_begin_, when);
  bytes_then_ = bytes;
}

void CallTimer::Reserve(std::uint64_t bytes) {
  constexpr std::uint64_t kWindows = 16;
  pace_bytes_ = std::max(limits_.pace_bytes, bytes / kWindows);
}

absl::Status CallTimer::Overdue(absl::Time now, absl::Duration patience) const {
  if (now >= deadline_) {
    return kernels::Error(absl::StatusCode::kDeadlineExceeded, reason::kDeadline,
                          "the call's deadline has passed");
  }
  if (now - start_ >= limits_.duration) {
    return LimitError(reason::kDuration, "the call took longer than", "max_stream_seconds", limits_.duration);
  }
  if (awaiting_client_ && patience < limits_.idle && now - progress_ >= patience) {
    const std::string seconds = absl::StrCat(absl::ToInt64Seconds(patience));
    return kernels::Error(absl::StatusCode::kDeadlineExceeded, reason::kIdle,
                          absl::StrCat("the client sent nothing for ", seconds, " s"),
                          {{"seconds", seconds}});
  }
  if (awaiting_client_ && now - progress_ >= limits_.idle) {
    return LimitError(reason::kIdle, "the client was idle for", "idle_timeout_seconds", limits_.idle,
                      ": it sent no bytes and no half-close, and read no results");
  }
  if (awaiting_client_ && now - pace_begin_ >= 2 * limits_.idle) {
    return LimitError(reason::kRate, absl::StrCat("fewer than ", pace_bytes_, " bytes arrived in twice"),
                      "idle_timeout_seconds", limits_.idle);
  }
  return absl::OkStatus();
}

}  // namespace warpfold::server
