// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/admission.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::server {

absl::StatusOr<Admission::Ticket> Admission::Enter() {
  const std::lock_guard lock(mutex_);
  if (!closed_.ok()) return closed_;
  if (in_progress_ >= limit_) {
    return kernels::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_REDUCTIONS",
                          absl::StrCat("max_concurrent_reductions = ", limit_, " are in progress"),
                          {{"limit", "max_concurrent_reductions"}, {"value", std::to_string(limit_)}});
  }
  ++in_progress_;
  return Ticket(this);
}

void Admission::Close(absl::Status why) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) closed_ = std::move(why);
}

bool Admission::WaitUntilEmpty(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  return empty_.wait_until(lock, absl::ToChronoTime(deadline), [this] { return in_progress_ == 0; });
}

int Admission::in_progress() const {
  const std::lock_guard lock(mutex_);
  return in_progress_;
}

void Admission::Leave() {
  const std::lock_guard lock(mutex_);
  if (--in_progress_ == 0) empty_.notify_all();
}

}  // namespace warpfold::server
