// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/retry.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "client/connections/status.h"
#include "proto/error_reasons.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

constexpr absl::Duration kLongestPause = absl::Seconds(5);
// A call that is retried until the deadline pauses no longer than this: a place that becomes free meanwhile
// stays empty for this long.
constexpr absl::Duration kLongestPatientPause = absl::Seconds(1);
// If a server asks for a longer pause than this, the client does not comply.
constexpr absl::Duration kLongestRetryDelay = absl::Minutes(1);
// The longest time that a call waits after the rejection of an earlier one.
constexpr absl::Duration kLongestRest = absl::Seconds(1);
// The shortest time for which a target that does not serve is left out.
constexpr absl::Duration kLeftOut = absl::Seconds(1);
// The same for a target to which the call could not even connect: until gRPC has given up, too
// (connection.cc), and fails the next call at once.
constexpr absl::Duration kSilentLeftOut = absl::Seconds(5);
// The time for which a server that refused a connection is not asked for another one.
constexpr absl::Duration kFull = absl::Seconds(1);

// As long as the server asks for, and varied as a pause is.
absl::Duration RestAfter(const absl::Status& status) {
  const absl::Duration delay = RetryDelay(status).value_or(absl::ZeroDuration());
  return std::min(delay, kLongestRest) * absl::Uniform(absl::BitGen(), 1.0, 1.2);
}

}  // namespace

bool MayRetry(const absl::Status& status, const Attempt& attempt) {
  if (attempt.delivered) return false;
  // The server rejected the call before it read the data that was already on its way.
  if (IsBusy(status)) return true;
  if (!absl::IsUnavailable(status)) return false;
  return !attempt.may_be_done || IsDraining(status);
}

RetryPolicy::RetryPolicy(const ClientOptions& options, absl::Time deadline)
    : max_attempts_(options.max_attempts), first_pause_(options.backoff), deadline_(deadline) {
  Reset();
}

void RetryPolicy::Reset() {
  attempts_left_ = std::max(max_attempts_, 1) - 1;
  could_not_read_ = false;
  pause_ = first_pause_;
}

std::optional<absl::Duration> RetryPolicy::PauseAfter(const absl::Status& status, const Attempt& attempt,
                                                      absl::Time now) {
  if (!MayRetry(status, attempt)) return std::nullopt;
  // Twice in a row, it is this call's own memory, and each attempt ends the connection for all its calls.
  if (std::exchange(could_not_read_, CouldNotRead(status)) && could_not_read_) return std::nullopt;
  // A caller that wants no retries can go elsewhere.
  const bool until_the_deadline = attempt.patient && max_attempts_ > 1 && IsBusy(status);
  if (attempts_left_ <= 0 && !until_the_deadline) return std::nullopt;
  absl::BitGen random;
  absl::Duration pause = pause_ * absl::Uniform(random, 0.8, 1.0);
  if (const std::optional<absl::Duration> delay = RetryDelay(status)) {
    // The pause is never shorter than the server asked for, and it is varied, so that clients that were
    // rejected together do not return together.
    pause = std::max(pause, std::min(*delay, kLongestRetryDelay) * absl::Uniform(random, 1.0, 1.2));
  }
  if (now + pause >= deadline_) return std::nullopt;
  // A rejection beside other calls of the client is not a failure, and ends a row of failures.
  attempts_left_ = until_the_deadline ? max_attempts_ - 1 : attempts_left_ - 1;
  pause_ = std::min(pause_ * 2, until_the_deadline ? kLongestPatientPause : kLongestPause);
  return pause;
}

RetryLoop::RetryLoop(Targets& targets, std::size_t preferred, const ClientOptions& options,
                     absl::Time deadline, Interrupts interrupts)
    : targets_(targets),
      preferred_(preferred),
      deadline_(deadline),
      interrupts_(std::move(interrupts)),
      policy_(options, deadline),
      lease_(targets.Take(preferred, SteadyNow())) {
  AwaitRest();
  was_connected_ = lease_.connection().IsReady();
}

void RetryLoop::AwaitRest() {
  const absl::Time end = targets_.RestsUntil(lease_);
  const absl::Time now = SteadyNow();
  if (end > now && end < deadline_) Pause(std::min(end - now, kLongestRest * 2));
}

void RetryLoop::Pause(absl::Duration pause) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  const absl::Time end = SteadyNow() + pause;
  while (!interrupts_.stop.stop_requested()) {
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) return;
    if (interrupts_.keep_going && !interrupts_.keep_going()) return Cancel();
    const absl::Duration turn = interrupts_.keep_going ? std::min(left, kAskedEvery) : left;
    never.wait_for(lock, interrupts_.stop, absl::ToChronoNanoseconds(turn), [] { return false; });
  }
}

void RetryLoop::Cancel() {
  std::stop_source stopped;
  stopped.request_stop();
  interrupts_ = {stopped.get_token()};
}

void RetryLoop::NoteFailed() {
  failed_.insert(lease_.target());
  // All targets have failed: it is the others' turn again.
  if (failed_.size() == targets_.count()) failed_ = {lease_.target()};
}

bool RetryLoop::WasRefused(const absl::Status& status, absl::Time now) const {
  if (!MayRetry(status, {}) || IsBusy(status) || IsDraining(status) || CouldNotRead(status)) return false;
  // A connection that worked and broke was not refused: if the others are broken, too, and do not know it
  // yet, the attempt that moves to one of them finds the server gone.
  return !was_connected_ && targets_.OnlyOthersWork(lease_, now);
}

void RetryLoop::TellTargets(const absl::Status& status, bool was_refused, std::optional<absl::Duration> pause,
                            absl::Time now) {
  // An attempt that began too late says nothing about the target.
  if (absl::IsDeadlineExceeded(status) && began_ < deadline_ && !lease_.connection().IsReady()) {
    targets_.LeaveOut(lease_.target(), now + kSilentLeftOut);
  }
  if (IsBusy(status)) {
    targets_.LeaveOut(lease_.target(), now + pause.value_or(kLeftOut));
    return targets_.Rest(lease_, now + RestAfter(status));
  }
  // If the connection broke because of memory of this process, the target is fine.
  if (!MayRetry(status, {}) || CouldNotRead(status)) return;
  targets_.Rest(lease_, now);
  if (was_refused) return targets_.NoteFull(lease_.target(), now + kFull);
  NoteFailed();
  targets_.LeaveOut(lease_.target(), now + std::max(pause.value_or(kLeftOut), kLeftOut));
  if (IsDraining(status)) targets_.Renew(lease_);
}

bool RetryLoop::Again(const absl::Status& status, const Attempt& failed) {
  const absl::Time now = SteadyNow();
  Attempt attempt = failed;
  // The end of an array frees no other place.
  attempt.patient |= LacksPlaceForArray(status) && lease_.connection().target_load().HasPlaces();
  const std::optional<absl::Duration> pause = policy_.PauseAfter(status, attempt, now);
  const bool was_refused = WasRefused(status, now);
  TellTargets(status, was_refused, pause, now);
  // A connection that is made instead of another has not failed yet.
  const bool waits_to_connect = lease_.connection().CouldNotConnect() || IsDraining(status);
  const bool drained_twice = std::exchange(drained_, IsDraining(status)) && drained_;
  if (!pause.has_value()) return false;
  const std::size_t best = targets_.Best(preferred_, now, failed_);
  const bool serves = !targets_.IsLeftOut(best, now);
  // If nothing else serves, the same connection is used: it may have to be made again.
  const bool moves = best != lease_.target() || was_refused;
  if (moves) lease_ = targets_.Take(preferred_, now, failed_);
  // A broken connection is noticed a little later than its calls are told of it.
  const bool waits = !serves || CouldNotRead(status);
  if (waits && drained_twice) {
    // One new connection has led to a server that drains: another one that is made at once may do so, too,
    // and other calls may have made one meanwhile.
    Pause(*pause);
    if (!moves) targets_.Renew(lease_);
  } else if (waits) {
    const auto ends =
        moves || waits_to_connect ? Connection::PauseEnds::kOnceConnected : Connection::PauseEnds::kInTime;
    if (!lease_.connection().PauseAndConnect(*pause, ends, deadline_, interrupts_)) Cancel();
  }
  began_ = SteadyNow();
  was_connected_ = lease_.connection().IsReady();
  is_late_ = began_ >= deadline_ && !interrupts_.stop.stop_requested();
  if (is_late_) return false;
  // This also applies after an interrupt: an attempt that starts cancelled reports this, while `status` is
  // still the old failure.
  return true;
}

absl::Status RetryLoop::Outcome(const absl::Status& status) const {
  if (!is_late_) return status;
  return MakeError(
      absl::StatusCode::kDeadlineExceeded, reason::kDeadline,
      absl::StrCat("the deadline passed before the next attempt; the last one: ", status.message()));
}

}  // namespace warpfold
