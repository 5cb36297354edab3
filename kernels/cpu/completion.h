// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of what a slot has other threads do: whether it has come, who waits for it, and who is told.
//
// Threads: End is called by a thread of the pool, all else by the slot's caller.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

namespace warpfold::kernels::cpu {

class Completion {
 public:
  void NotifyBy(std::function<void()> on_finished) { on_finished_ = std::move(on_finished); }

  // The work begins, of which no other thread knows yet.
  void Begin() { runs_ = true; }
  // The work has ended. What the thread wrote before, those who waited see.
  void End() {
    {
      const std::lock_guard lock(mutex_);
      runs_ = false;
      done_.notify_one();
      if (!std::exchange(notifies_, false)) return;
    }
    on_finished_();
  }

  // Has on_finished called once, at the end of the work, or now if there is none that runs.
  void Notify() {
    {
      const std::lock_guard lock(mutex_);
      notifies_ = runs_;
      if (notifies_) return;
    }
    on_finished_();
  }

  bool Finished() {
    const std::lock_guard lock(mutex_);
    return !runs_;
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return !runs_; });
  }

 private:
  std::function<void()> on_finished_;
  std::mutex mutex_;
  std::condition_variable done_;
  // Guarded by mutex_ while the work runs.
  bool runs_ = false;
  bool notifies_ = false;  // when it ends
};

}  // namespace warpfold::kernels::cpu
