// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the process ends. A thread takes SIGTERM and SIGINT from the start of the process to its last moment
// and does nothing that could take long: whatever other threads wait for, whether a name, a file, a pipe or
// the device's driver, a signal is obeyed (docs/adr/0097).
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "absl/time/time.h"

namespace warpfold::server {

// Threads: any, except for functions that say otherwise.
class ProcessEnd {
 public:
  // Blocks the signals in all later threads, and makes the one that takes them: call this once, before any
  // other thread is made. Until ServeFromNow a signal ends the process at once, like one that does not handle
  // it: during startup there is nothing to drain, and it may take long. Never destroyed, since it is needed
  // until the process has ended. Throws std::system_error if there is no thread.
  static ProcessEnd& Make();

  // From now on a signal is a request, which AwaitRequest reports. If nobody has called AwaitRequest within 5
  // s after it, because the start hangs, it ends the process. A second signal, later than 0.2 s after the
  // first, ends the process at once: a program that signals a process and then its group, as timeout(1) does,
  // makes one request. The parent sees the signal that ended the process, SIGTERM or SIGINT.
  void ServeFromNow();

  // Has the thread call `check` a hundred times a second, until Unwatch, which waits for a call that is in
  // progress. `check` may end the process, and should otherwise take no time.
  void Watch(std::function<void()> check);
  void Unwatch() { Watch(nullptr); }

  // Blocks until a signal has asked the process to end.
  void AwaitRequest();

  // If the process has not ended by itself within `timeout`, it is ended with this exit code, without waiting
  // for anything that hangs. The last call counts.
  void EndWithin(absl::Duration timeout, int exit_code);

 private:
  using Time = std::chrono::steady_clock::time_point;

  ProcessEnd() = default;
  void Run();
  void TakeSignal(int number, Time now);
  void Check(Time now);

  std::mutex mutex_;
  std::condition_variable requested_;
  bool is_serving_ = false;      // guarded by mutex_
  bool is_awaited_ = false;      // guarded by mutex_; whether AwaitRequest has been called
  bool is_requested_ = false;    // guarded by mutex_
  std::function<void()> check_;  // guarded by mutex_; empty: nothing to watch
  Time deadline_ = Time::max();  // guarded by mutex_; when the process is ended
  int exit_code_ = 0;            // guarded by mutex_; at the deadline
  Time requested_at_;            // the thread's
  int requested_by_ = 0;         // the thread's; the number of the first signal
};

}  // namespace warpfold::server
