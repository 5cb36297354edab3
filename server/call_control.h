// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When and why a call must stop: the client's deadline, the service's limits on idleness and duration,
// and whatever else ends a call from outside (the client left, the device failed, the server drains).
//
// Threads: all methods from any thread. std::mutex rather than absl::Mutex, as everywhere in the core:
// ThreadSanitizer sees through it without an instrumented abseil.
#pragma once

#include <atomic>
#include <mutex>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpfold::server {

struct CallLimits {
  absl::Duration idle = absl::InfiniteDuration();      // longest wait for the client's progress
  absl::Duration duration = absl::InfiniteDuration();  // longest life of the call
};

class CallControl {
 public:
  CallControl(absl::Time start, absl::Time deadline, CallLimits limits);

  // The idle limit counts from the client's last progress: the start of the call, or a message that carried
  // something (a chunk without bytes does not). A client is not blamed while the server has a message, or
  // the end of messages, of it to look at: between MessageCame and the MessageDone that follows.
  void MessageCame();
  void MessageDone();
  // To be called for a message before its MessageDone.
  void Progress(absl::Time now);

  // DEADLINE_EXCEEDED (DEADLINE, IDLE or DURATION) once the call has outlived a limit, else OK.
  absl::Status Overdue(absl::Time now) const;

  // Tells the call to stop with `why`, which is not OK. False if it had been told so before: the first
  // reason stays.
  bool Stop(absl::Status why);
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  // The reason given to Stop, or OK.
  absl::Status status() const;

 private:
  const absl::Time start_;
  const absl::Time deadline_;
  const CallLimits limits_;

  std::atomic<bool> stopped_ = false;
  mutable std::mutex mutex_;
  absl::Status why_;          // guarded by mutex_
  absl::Time progress_;       // guarded by mutex_; the last
  int messages_at_hand_ = 0;  // guarded by mutex_
};

}  // namespace warpfold::server
