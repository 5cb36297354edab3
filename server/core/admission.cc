// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/core/admission.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::server {

namespace {

// Calls about the server are short; a watch is a few hundred bytes.
constexpr int kSmallPlaces = 64;
constexpr int kWatchPlaces = 1024;

// When a refused call is to come again: about the time that a share of an array takes.
constexpr char kRetryMs[] = "100";

absl::Status NoPlace(Admission::Kind kind, int limit) {
  if (kind == Admission::Kind::kReduction || kind == Admission::Kind::kMerge) {
    return kernels::Error(
        absl::StatusCode::kResourceExhausted, "TOO_MANY_REDUCTIONS",
        absl::StrCat("max_concurrent_reductions = ", limit, " are in progress"),
        {{"limit", "max_concurrent_reductions"}, {"value", std::to_string(limit)}, {"retry_ms", kRetryMs}});
  }
  return kernels::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_CALLS",
                        absl::StrCat(limit, " calls of this kind are in progress"),
                        {{"value", std::to_string(limit)}, {"retry_ms", kRetryMs}});
}

}  // namespace

Admission::Admission(int max_concurrent_reductions)
    : limits_({max_concurrent_reductions, max_concurrent_reductions, kSmallPlaces, kWatchPlaces}) {}

absl::StatusOr<Admission::Ticket> Admission::Enter(Kind kind, const std::string& array) {
  const auto k = static_cast<std::size_t>(kind);
  const std::lock_guard lock(mutex_);
  const bool has_begun = newer_arrays_.contains(array) || older_arrays_.contains(array);
  const bool goes_on = has_begun && closed_to_merges_.ok();
  if (kind == Kind::kReduction && !closed_.ok() && !goes_on) return closed_;
  if (kind == Kind::kMerge && !closed_to_merges_.ok()) return closed_to_merges_;
  if (in_progress_[k] >= limits_[k]) return NoPlace(kind, limits_[k]);
  ++in_progress_[k];
  if (kind == Kind::kReduction && !array.empty()) RememberLocked(array);
  return Ticket(this, kind);
}

void Admission::RememberLocked(const std::string& array) {
  newer_arrays_.insert(array);
  if (newer_arrays_.size() < kMaxArrays) return;
  older_arrays_ = std::move(newer_arrays_);
  newer_arrays_.clear();
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
  return InProgressLocked() == 0 && now - last_state_given_out_ >= kMergeWait;
}

void Admission::WaitUntilEmpty() {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [this] { return InProgressLocked() == 0; });
}

bool Admission::WaitUntilEmpty(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                         [this] { return InProgressLocked() == 0; });
}

int Admission::in_progress() const {
  const std::lock_guard lock(mutex_);
  return InProgressLocked();
}

bool Admission::AwaitsCalls(absl::Time now) const {
  const std::lock_guard lock(mutex_);
  const int merges = in_progress_[static_cast<std::size_t>(Kind::kMerge)];
  return parts_ + merges > 0 || now - last_state_given_out_ < kMergeWait;
}

void Admission::Ticket::MarkAsPart() {
  if (admission_ == nullptr || std::exchange(part_, true)) return;
  const std::lock_guard lock(admission_->mutex_);
  ++admission_->parts_;
}

void Admission::Leave(Kind kind, bool part) {
  const std::lock_guard lock(mutex_);
  if (part) --parts_;
  --in_progress_[static_cast<std::size_t>(kind)];
  if (InProgressLocked() == 0) empty_.notify_all();
}

int Admission::InProgressLocked() const {
  return in_progress_[static_cast<std::size_t>(Kind::kReduction)] +
         in_progress_[static_cast<std::size_t>(Kind::kMerge)];
}

}  // namespace warpfold::server
