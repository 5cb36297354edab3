// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When a call is retried, and where. Internal.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/connections/connection.h"
#include "client/connections/targets.h"
#include "client/options.h"
#include "proto/shared/steady_time.h"

namespace warpfold {

// What a failed attempt has done, and what depends on the call.
struct Attempt {
  // The server may have done what must not be done twice: it would keep an array twice. To reduce one twice
  // is only a waste.
  bool may_be_done = false;
  // A part of the response has reached the caller, who cannot take it twice.
  bool delivered = false;
  // A full server is asked again until the deadline, without counting attempts: either work has been done
  // that only this call can use, or other calls of this client have places at that server, which will become
  // free.
  bool patient = false;
};

// Whether the same call may succeed later or on another server.
bool MayRetry(const absl::Status& status, const Attempt& attempt);

inline const absl::Status& StatusOf(const absl::Status& answer) { return answer; }
template <class Answer>
const absl::Status& StatusOf(const absl::StatusOr<Answer>& answer) {
  return answer.status();
}

// Determines how long to wait between the attempts of one call. Threads: one at a time.
class RetryPolicy {
 public:
  RetryPolicy(const ClientOptions& options, absl::Time deadline);

  // The pause before the attempt that follows one which ended at `now` with `status`. Nothing if there should
  // be no further attempt: it would not help, too many have failed in a row, or the deadline would come
  // first.
  std::optional<absl::Duration> PauseAfter(const absl::Status& status, const Attempt& attempt,
                                           absl::Time now);

  // An attempt was successful: the next failure is the first in a row.
  void Reset();

 private:
  const int max_attempts_;
  const absl::Duration first_pause_;
  const absl::Time deadline_;
  int attempts_left_ = 0;
  bool could_not_read_ = false;  // the last attempt
  absl::Duration pause_;
};

// The attempts of one call. Threads: one at a time.
class RetryLoop {
 public:
  // Begins with target `preferred`, if that serves. `targets` must outlive this. If a full server rejected
  // the last call on the connection, waits until the time at which the server wants to be asked again, or for
  // a second; not if the deadline comes before that.
  RetryLoop(Targets& targets, std::size_t preferred, const ClientOptions& options, absl::Time deadline,
            Interrupts interrupts);

  // For the next attempt.
  const Connection& connection() const { return lease_.connection(); }
  const Interrupts& interrupts() const { return interrupts_; }

  // Whether to retry after `status`; if so, returns after a pause, or once there is a connection again, or at
  // once if another target serves, or another connection to the same one works. After a server that drains, a
  // new connection is made; if that, or another target, leads to one that drains, too, then only after the
  // pause.
  bool Again(const absl::Status& status, const Attempt& failed);
  // Returns the error of the whole call, once Again has returned false: `status`, or DEADLINE_EXCEEDED if the
  // time ran out while it waited.
  absl::Status Outcome(const absl::Status& status) const;

  // Calls once(connection, interrupts, attempt) until what it returns, a status or a StatusOr, is OK or is
  // not retried. Each time `attempt` is a copy of `begin`, in which it records what it has done.
  template <class Once>
  auto Run(const Once& once, const Attempt& begin = {}) {
    while (true) {
      Attempt attempt = begin;
      auto answer = once(connection(), interrupts(), attempt);
      if (answer.ok()) return answer;
      if (!Again(StatusOf(answer), attempt)) return decltype(answer)(Outcome(StatusOf(answer)));
    }
  }

  void Succeeded() {
    policy_.Reset();
    drained_ = false;
  }

 private:
  // Whether the server may have had no place for the attempt's connection, while it has others.
  bool WasRefused(const absl::Status& status, absl::Time now) const;
  // What the end of an attempt, before the pause, says about its target and connection.
  void TellTargets(const absl::Status& status, bool was_refused, std::optional<absl::Duration> pause,
                   absl::Time now);
  void AwaitRest();
  // Returns early after an interrupt.
  void Pause(absl::Duration pause);
  // The next attempt starts cancelled.
  void Cancel();
  // The target of the last attempt does not serve.
  void NoteFailed();

  Targets& targets_;
  const std::size_t preferred_;
  const absl::Time deadline_;
  Interrupts interrupts_;
  RetryPolicy policy_;
  Targets::Lease lease_;
  Targets::Failed failed_;          // since all of them have had their turn
  bool drained_ = false;            // the server of the last attempt
  bool was_connected_ = false;      // when the attempt began
  bool is_late_ = false;            // the deadline passed during the wait for the next attempt
  absl::Time began_ = SteadyNow();  // the attempt
};

}  // namespace warpfold
