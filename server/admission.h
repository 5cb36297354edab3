// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many reductions may be in progress at once, and when a server that drains has nothing left to do.
// Asked before anything is allocated for a call.
//
// Threads: all methods from any thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpfold::server {

// How long after a state was given out its Merge is waited for: it is sent as soon as all stripes of an
// array are answered.
inline constexpr absl::Duration kMergeWait = absl::Seconds(2);

class Admission {
 public:
  // A Merge completes reductions that were admitted before, is short and needs no slot.
  enum class Kind { kReduction, kMerge };

  // A place among the reductions in progress, given back at destruction.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept : admission_(std::exchange(other.admission_, nullptr)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(admission_, other.admission_);
      return *this;
    }
    ~Ticket() {
      if (admission_ != nullptr) admission_->Leave();
    }

   private:
    friend class Admission;
    explicit Ticket(Admission* admission) : admission_(admission) {}
    Admission* admission_ = nullptr;
  };

  explicit Admission(int max_concurrent_reductions) : limit_(max_concurrent_reductions) {}

  // RESOURCE_EXHAUSTED (TOO_MANY_REDUCTIONS), or the status given to whichever Close it was.
  absl::StatusOr<Ticket> Enter(Kind kind = Kind::kReduction);

  // Admits no more reductions, but merges.
  void CloseToReductions(absl::Status why);
  // Admits nothing more.
  void Close(absl::Status why);

  // To be called when a partial state is given out at `now`, before the ticket is given back.
  void StateGivenOut(absl::Time now);

  // Whether, at `now`, no ticket is out and no Merge is waited for.
  bool IsQuiet(absl::Time now) const;

  // Blocks until no ticket is out.
  void WaitUntilEmpty();
  // Likewise; false if it took longer than `timeout`.
  bool WaitUntilEmpty(absl::Duration timeout);

  int in_progress() const;

 private:
  void Leave();

  const int limit_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  int in_progress_ = 0;                                     // guarded by mutex_
  absl::Status closed_;                                     // guarded by mutex_; OK while open
  absl::Status closed_to_merges_;                           // guarded by mutex_; likewise
  absl::Time last_state_given_out_ = absl::InfinitePast();  // guarded by mutex_
};

}  // namespace warpfold::server
