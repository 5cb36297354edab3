// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/admission.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {

namespace {

// After how long a rejected call should come again: about the time that a share of an array takes.
constexpr char kRetryMs[] = "100";

bool IsReduction(Admission::Kind kind) {
  return kind == Admission::Kind::kReduction || kind == Admission::Kind::kArray;
}

bool IsWork(Admission::Kind kind) { return IsReduction(kind) || kind == Admission::Kind::kMerge; }

// The name of the limit on calls of a kind that has no flag.
std::string LimitName(Admission::Kind kind) {
  switch (kind) {
    case Admission::Kind::kCheck:
      return "probes";
    case Admission::Kind::kWatch:
      return "watches";
    default:
      return "calls_about_the_server";
  }
}

absl::Status NoPlace(Admission::Kind kind, int limit) {
  if (IsWork(kind)) {
    return kernels::Error(
        absl::StatusCode::kResourceExhausted, reason::kTooManyReductions,
        absl::StrCat("the server is full: max_concurrent_reductions = ", limit,
                     " (some places are reserved for small arrays and other clients)"),
        {{"limit", "max_concurrent_reductions"}, {"value", std::to_string(limit)}, {"retry_ms", kRetryMs}});
  }
  const std::string name = LimitName(kind);
  return kernels::Error(absl::StatusCode::kResourceExhausted, reason::kTooManyCalls,
                        absl::StrCat("the server is full: ", name, " = ", limit,
                                     " (the last eighth is reserved for other clients)"),
                        {{"limit", name}, {"value", std::to_string(limit)}, {"retry_ms", kRetryMs}});
}

}  // namespace

Admission::Admission(int max_concurrent_reductions) : max_concurrent_reductions_(max_concurrent_reductions) {}

int Admission::LimitOf(Kind kind) const {
  switch (kind) {
    case Kind::kSmall:
      return kSmallPlaces;
    case Kind::kCheck:
      return kCheckPlaces;
    case Kind::kWatch:
      return kWatchPlaces;
    case Kind::kReduction:
    case Kind::kArray:
    case Kind::kMerge:
      break;
  }
  return max_concurrent_reductions_;
}

// Reductions share their places.
int Admission::TakenOf(const Counts& counts, Kind kind) {
  constexpr auto kReductions = static_cast<std::size_t>(Kind::kReduction);
  constexpr auto kArrays = static_cast<std::size_t>(Kind::kArray);
  return IsReduction(kind) ? counts[kReductions] + counts[kArrays] : counts[static_cast<std::size_t>(kind)];
}

bool Admission::IsNearlyFull(Kind kind) const {
  const std::lock_guard lock(mutex_);
  const int limit = LimitOf(kind);
  return TakenOf(in_progress_, kind) >= limit - limit / kOthersReserveDivisor;
}

bool Admission::HasPlaceLocked(Kind kind, const std::string& party) const {
  const int limit = LimitOf(kind);
  const int taken = TakenOf(in_progress_, kind);
  if (kind == Kind::kReduction && taken >= limit - limit / kArrayReserveDivisor) return false;
  if (taken < limit - limit / kOthersReserveDivisor) return true;
  const auto found = of_parties_.find(party);
  return taken < limit && (found == of_parties_.end() || 2 * TakenOf(found->second, kind) <= limit);
}

absl::StatusOr<Admission::Ticket> Admission::Enter(Kind kind, const Caller& caller) {
  const auto k = static_cast<std::size_t>(kind);
  const std::lock_guard lock(mutex_);
  const bool has_begun = newer_arrays_.contains(caller.array) || older_arrays_.contains(caller.array);
  const bool goes_on = has_begun && closed_to_merges_.ok();
  if (IsReduction(kind) && !closed_.ok() && !goes_on) return closed_;
  if (kind == Kind::kMerge && !closed_to_merges_.ok()) return closed_to_merges_;
  if (!HasPlaceLocked(kind, caller.party)) return NoPlace(kind, LimitOf(kind));
  ++in_progress_[k];
  ++of_parties_[caller.party][k];
  if (IsReduction(kind) && !caller.array.empty()) RememberLocked(caller.array);
  return Ticket(this, kind, caller.party);
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

int Admission::reductions() const {
  const std::lock_guard lock(mutex_);
  return TakenOf(in_progress_, Kind::kReduction);
}

int Admission::merges() const {
  const std::lock_guard lock(mutex_);
  return TakenOf(in_progress_, Kind::kMerge);
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
  if (admission_ == nullptr || !IsWork(kind_) || std::exchange(part_, true)) return;
  const std::lock_guard lock(admission_->mutex_);
  ++admission_->parts_;
}

void Admission::Leave(Kind kind, bool part, const std::string& party) {
  const std::lock_guard lock(mutex_);
  if (part) --parts_;
  const auto of_party = of_parties_.find(party);
  --of_party->second[static_cast<std::size_t>(kind)];
  if (of_party->second == Counts{}) of_parties_.erase(of_party);
  --in_progress_[static_cast<std::size_t>(kind)];
  if (InProgressLocked() == 0) empty_.notify_all();
}

int Admission::InProgressLocked() const {
  return in_progress_[static_cast<std::size_t>(Kind::kReduction)] +
         in_progress_[static_cast<std::size_t>(Kind::kArray)] +
         in_progress_[static_cast<std::size_t>(Kind::kMerge)];
}

}  // namespace warpfold::server
