// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/retry.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "client/connections/status.h"

namespace warpfold {
namespace {

constexpr absl::Duration kLongestPause = absl::Seconds(5);
// Whoever asks until the deadline pauses no longer than this: a place that becomes free meanwhile stays empty
// for as long.
constexpr absl::Duration kLongestPatientPause = absl::Seconds(1);
// A server that asks for a longer pause than this is not obeyed.
constexpr absl::Duration kLongestRetryDelay = absl::Minutes(1);
// How long a call waits at most that follows another's refusal.
constexpr absl::Duration kLongestRest = absl::Seconds(1);
// How long a target that does not serve is left out, at least.
constexpr absl::Duration kLeftOut = absl::Seconds(1);
// How long one that did not even let the call connect: until gRPC, too, has given up (connection.cc), and
// fails the next call at once.
constexpr absl::Duration kSilentLeftOut = absl::Seconds(5);

// As long as the server asks for, and varied as a pause is.
absl::Duration RestAfter(const absl::Status& status) {
  const absl::Duration delay = RetryDelay(status).value_or(absl::ZeroDuration());
  return std::min(delay, kLongestRest) * absl::Uniform(absl::BitGen(), 1.0, 1.2);
}

}  // namespace

bool MayRetry(const absl::Status& status, const Attempt& attempt) {
  if (attempt.delivered) return false;
  // The server refused the call before it read the data that was already under way.
  if (IsBusy(status)) return true;
  if (!absl::IsUnavailable(status)) return false;
  return !attempt.took_data || IsDraining(status);
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
  // Who wants no retry has another place to go.
  const bool until_the_deadline = attempt.patient && max_attempts_ > 1 && IsBusy(status);
  if (attempts_left_ <= 0 && !until_the_deadline) return std::nullopt;
  absl::BitGen random;
  absl::Duration pause = pause_ * absl::Uniform(random, 0.8, 1.0);
  if (const std::optional<absl::Duration> delay = RetryDelay(status)) {
    // The pause is never shorter than the server asked for, and it is varied, so that clients that were
    // refused together do not return together.
    pause = std::max(pause, std::min(*delay, kLongestRetryDelay) * absl::Uniform(random, 1.0, 1.2));
  }
  if (now + pause >= deadline_) return std::nullopt;
  // A refusal beside other calls of the client is no failure, and ends a row of them.
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
      lease_(targets.Take(preferred, absl::Now())) {
  AwaitRest();
}

void RetryLoop::AwaitRest() {
  const absl::Time end = targets_.RestsUntil(lease_);
  const absl::Time now = absl::Now();
  if (end > now && end < deadline_) Pause(std::min(end - now, kLongestRest * 2));
}

void RetryLoop::Pause(absl::Duration pause) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  // This measures by a clock that nobody sets.
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause);
  while (!interrupts_.stop.stop_requested()) {
    const absl::Duration left = absl::FromChrono(end - std::chrono::steady_clock::now());
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
  // All have failed: the others' turn has come again.
  if (failed_.size() == targets_.count()) failed_ = {lease_.target()};
}

bool RetryLoop::Again(const absl::Status& status, const Attempt& failed) {
  const absl::Time now = absl::Now();
  Attempt attempt = failed;
  // No other place becomes free with an array's end.
  attempt.patient |= LacksPlaceForArray(status) && lease_.connection().target_load().HasPlaces();
  const std::optional<absl::Duration> pause = policy_.PauseAfter(status, attempt, now);
  // An attempt that began too late says nothing about the target.
  if (absl::IsDeadlineExceeded(status) && began_ < deadline_ && !lease_.connection().IsReady()) {
    targets_.LeaveOut(lease_.target(), now + kSilentLeftOut);
  }
  // Where the connection broke over memory of this process, the target is well.
  if (MayRetry(status, {}) && !CouldNotRead(status)) {
    const absl::Duration least = IsBusy(status) ? absl::ZeroDuration() : kLeftOut;
    if (!IsBusy(status)) NoteFailed();
    targets_.LeaveOut(lease_.target(), now + std::max(pause.value_or(kLeftOut), least));
  }
  if (IsBusy(status)) targets_.Rest(lease_, now + RestAfter(status));
  if (IsDraining(status)) targets_.Renew(lease_);
  const bool drained_twice = std::exchange(drained_, IsDraining(status)) && drained_;
  if (!pause.has_value()) return false;
  const std::size_t best = targets_.Best(preferred_, now, failed_);
  const bool serves = !targets_.IsLeftOut(best, now);
  // If nothing else serves, the same connection is used: it may have to be made again.
  const bool moves = best != lease_.target();
  if (moves) lease_ = targets_.Take(preferred_, now, failed_);
  // A broken connection is found out a little later than its calls are told.
  const bool waits = !serves || CouldNotRead(status);
  if (waits && drained_twice) {
    // One new connection has led to a server that drains: another that is made at once may do so, too, and
    // meanwhile other calls may have made one.
    Pause(*pause);
    if (!moves) targets_.Renew(lease_);
  } else if (waits && !lease_.connection().PauseAndConnect(*pause, deadline_, interrupts_)) {
    Cancel();
  }
  began_ = absl::Now();
  if (began_ >= deadline_ && !interrupts_.stop.stop_requested()) return false;
  // After an interrupt too: an attempt that starts cancelled says so, where `status` is still the old
  // failure.
  return true;
}

}  // namespace warpfold
