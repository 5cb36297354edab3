// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/side_by_side.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/connections/grpc_process.h"
#include "client/connections/status.h"

namespace warpfold {
namespace {

// The threads of one request.
class Crew {
 public:
  Crew(const Interrupts& interrupts, const Part& run)
      : run_(run),
        each_({.stop = stop_all_.get_token(),
               .traceparent = interrupts.traceparent,
               .tracestate = interrupts.tracestate}),
        forward_stop_(interrupts.stop, [this] { stop_all_.request_stop(); }) {}
  // If RunSideBySide is left by an exception, parts may still be running.
  ~Crew() { StopAll(); }

  const Interrupts& each() const { return each_; }
  void StopAll() { stop_all_.request_stop(); }

  // False if the system has no thread for the part.
  bool Start(std::size_t part) {
    {
      const std::lock_guard lock(mutex_);
      ++under_way_;
    }
    try {
      threads_.emplace_back([this, part] {
        Run(part, each_);
        const std::lock_guard lock(mutex_);
        --under_way_;
        finished_.notify_all();
      });
      return true;
    } catch (const std::system_error&) {
      const std::lock_guard lock(mutex_);
      --under_way_;
      return false;
    }
  }

  void Run(std::size_t part, const Interrupts& interrupts) {
    try {
      if (run_(part, interrupts)) StopAll();
    } catch (...) {
      Fail(std::current_exception());
    }
  }

  // The first exception counts: the others may be caused by the end.
  void Fail(std::exception_ptr exception) {
    {
      const std::lock_guard lock(mutex_);
      if (exception_ == nullptr) exception_ = std::move(exception);
    }
    StopAll();
  }

  // Whether all threads have finished their parts within `timeout`.
  bool AwaitAll(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    return finished_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] { return under_way_ == 0; });
  }

  // Waits for the threads, and rethrows what was thrown.
  void Join() {
    threads_.clear();
    const std::lock_guard lock(mutex_);
    if (exception_ != nullptr) std::rethrow_exception(exception_);
  }

 private:
  const Part& run_;
  std::stop_source stop_all_;
  const Interrupts each_;
  const std::stop_callback<std::function<void()>> forward_stop_;
  // absl::Mutex would wait for a time of day.
  std::mutex mutex_;
  std::condition_variable finished_;
  std::size_t under_way_ = 0;     // guarded by mutex_
  std::exception_ptr exception_;  // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace

absl::Status RunSideBySide(std::size_t parts, const Interrupts& interrupts, const Part& run) {
  if (parts > 1) LookUpCpuFrequency();
  Crew crew(interrupts, run);
  bool goes_on = true;
  Interrupts own = crew.each();
  if (interrupts.keep_going) {
    own.keep_going = [&] {
      if (!std::exchange(goes_on, false)) return false;  // nor is it called again after it has thrown
      goes_on = interrupts.keep_going();
      if (!goes_on) crew.StopAll();
      return goes_on;
    };
  }
  std::size_t started = 0;
  while (parts > 1 && started < parts && crew.Start(started)) ++started;
  for (; started < parts; ++started) crew.Run(started, own);
  try {
    while (own.keep_going && !crew.AwaitAll(kAskedEvery) && own.keep_going()) continue;
  } catch (...) {
    crew.Fail(std::current_exception());
  }
  crew.Join();
  return goes_on ? absl::OkStatus() : Cancelled();
}

}  // namespace warpfold
