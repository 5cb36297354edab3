// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The time that a command may take, with everything that it reads, sends and prints.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "client/cli/flags.h"
#include "proto/shared/steady_time.h"

namespace warpfold::cli {

// Commands without --timeout may take this long. A running server responds to them at once.
inline constexpr absl::Duration kShortTimeout = absl::Seconds(5);

// How much time is left until the deadline for a call that begins now.
inline absl::Duration TimeLeft(absl::Time deadline) { return deadline - SteadyNow(); }

// Ends the process with DEADLINE_EXCEEDED, and this exit code, if the command still runs 5 s after its
// deadline. Calls and input end with the deadline by themselves, or 3 s later (CallOptions::timeout). A
// reader that no longer reads the output could hold up the command for as long as it likes, and so could a
// file system that does not respond.
class DeadlineGuard {
 public:
  explicit DeadlineGuard(absl::Time deadline, int exit_code = kExitServerError);
  // The command has ended in time.
  ~DeadlineGuard();
  DeadlineGuard(const DeadlineGuard&) = delete;
  DeadlineGuard& operator=(const DeadlineGuard&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;  // absl::Notification would wait for a time of day
  bool is_over_ = false;           // guarded by mutex_
  std::jthread thread_;
};

}  // namespace warpfold::cli
