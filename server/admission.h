// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many reductions may be in progress at once. Asked before anything is allocated for a call.
//
// Threads: all methods from any thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpfold::server {

class Admission {
 public:
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

  // RESOURCE_EXHAUSTED (TOO_MANY_REDUCTIONS), or the status given to Close.
  absl::StatusOr<Ticket> Enter();

  // Admits no more.
  void Close(absl::Status why);

  // Blocks until no ticket is out; false if that took until `deadline`.
  bool WaitUntilEmpty(absl::Time deadline);

  int in_progress() const;

 private:
  void Leave();

  const int limit_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  int in_progress_ = 0;  // guarded by mutex_
  absl::Status closed_;  // guarded by mutex_; OK while open
};

}  // namespace warpfold::server
