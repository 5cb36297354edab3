// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a test has fake slots do (fake_slot.h), what they have done, and which of them work until the test
// ends it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "kernels/error.h"
#include "kernels/reduction.h"

namespace warpfold::server {

inline absl::Status DeviceLost() {
  return kernels::Error(absl::StatusCode::kUnavailable, "DEVICE_LOST", "the device failed");
}

// Threads: any, at any time.
class FakeBehaviour {
 public:
  // A slot's work, whose end the test determines.
  struct Job {
    std::function<void()> on_finished;  // constant once the slot is used
    bool runs = false;                  // guarded by the behaviour's mutex, as are the next two
    bool notifies = false;              // whether Notify was called
    absl::Status status;                // with which it has ended
  };

  std::atomic<bool> fail_start = false;
  std::atomic<int> lost_device = -1;  // only slots of this one fail in Start
  std::atomic<bool> fail_wait = false;
  std::atomic<bool> wrong_results = false;
  std::atomic<bool> ends_in_start = true;  // unless it is blocked
  absl::Duration most_time_per_byte = absl::Microseconds(1);
  std::atomic<bool> stuck = false;  // Start does not return, as long as this is so
  std::atomic<int> starts = 0;
  std::atomic<int> piece_starts = 0;     // the starts on pieces
  std::atomic<std::size_t> pieces = 0;   // the pieces of all these
  std::atomic<int> starts_across = 0;    // the starts on parts of several memories
  std::uint64_t segment_capacity = 100;  // of one start
  // Whether slots write results of segments to where the caller wants them, instead of returning them.
  std::atomic<bool> writes_results = false;
  std::atomic<int> waits = 0;
  std::atomic<int> notices = 0;             // those that were requested
  std::atomic<std::uint64_t> elements = 0;  // of all starts
  std::atomic<int> misuses = 0;             // calls that the contract of kernels::Slot forbids

  // The next three are constant once a slot is used. Called at each start of a range or of segments.
  std::function<void(const kernels::ReductionPlan& reduction, bool of_segments)> on_start;
  std::span<const std::byte> piece_memory;
  bool keeps_pieces = true;

  // Slots that are started while blocked work until they are unblocked or finished one by one.
  void SetBlocked(bool blocked) {
    {
      const std::lock_guard lock(mutex_);
      blocked_ = blocked;
    }
    if (!blocked) FinishAll();
  }

  // Ends the work of the slot that was started `n`-th among those that work, from this thread; Await then
  // returns `status` if it is an error.
  void Finish(std::size_t n, absl::Status status = absl::OkStatus()) {
    std::function<void()> on_finished;
    {
      const std::lock_guard lock(mutex_);
      if (n >= working_.size()) return;
      Job& job = *working_[n];
      working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(n));
      job.runs = false;
      job.status = std::move(status);
      if (job.notifies) on_finished = job.on_finished;
    }
    finished_.notify_all();
    if (on_finished) on_finished();
  }
  void FinishAll() {
    while (working() > 0) Finish(0);
  }

  // How many slots have been started and not finished.
  std::size_t working() const {
    const std::lock_guard lock(mutex_);
    return working_.size();
  }

  // For slots. The job runs if slots are blocked; otherwise it has ended when Begin returns.
  void Begin(Job& job) {
    const std::lock_guard lock(mutex_);
    job.runs = blocked_;
    job.notifies = false;
    job.status = absl::OkStatus();
    if (job.runs) working_.push_back(&job);
  }
  void Notify(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(job.notifies, true)) ++misuses;
      ++notices;
      if (job.runs) return;
    }
    job.on_finished();
  }
  bool HasEnded(const Job& job) const {
    const std::lock_guard lock(mutex_);
    return !job.runs;
  }
  absl::Status Await(const Job& job) {
    ++waits;
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&job] { return !job.runs; });
    return fail_wait ? DeviceLost() : job.status;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  bool blocked_ = false;       // guarded by mutex_
  std::vector<Job*> working_;  // guarded by mutex_; oldest first
};

}  // namespace warpfold::server
