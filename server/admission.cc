// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/admission.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::server {

absl::StatusOr<Admission::Ticket> Admission::Enter(Kind kind) {
  const std::lock_guard lock(mutex_);
  const absl::Status& closed = kind == Kind::kMerge ? closed_to_merges_ : closed_;
  if (!closed.ok()) return closed;
  if (in_progress_ >= limit_) {
    return kernels::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_REDUCTIONS",
                          absl::StrCat("max_concurrent_reductions = ", limit_, " are in progress"),
                          {{"limit", "max_concurrent_reductions"}, {"value", std::to_string(limit_)}});
  }
  ++in_progress_;
  return Ticket(this);
}

void Admission::CloseToReductions(absl::Status why) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) closed_ = std::move(why);
}

void Admission::Close(absl::Status why) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) closed_ = why;
  if (closed_to_merges_.ok()) closed_to_merges_ = std::move(why);
}

void Admission::StateGivenOut(absl::Time now) {
  const std::lock_guard lock(mutex_);
  last_state_given_out_ = now;
}

bool Admission::IsQuiet(absl::Time now) const {
  const std::lock_guard lock(mutex_);
  return in_progress_ == 0 && now - last_state_given_out_ >= kMergeWait;
}

void Admission::WaitUntilEmpty() {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [this] { return in_progress_ == 0; });
}

bool Admission::WaitUntilEmpty(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] { return in_progress_ == 0; });
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
