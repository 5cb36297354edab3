// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of the work that a slot gives to other threads: whether it has come, who waits for it, and who is
// notified.
//
// Threads: End is called by a thread of the pool, everything else by the slot's caller.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

namespace warpfold::kernels::cpu {

class Completion {
 public:
  void NotifyBy(std::function<void()> on_finished) { on_finished_ = std::move(on_finished); }

  // The work begins; no other thread knows about it yet.
  void Begin() { runs_ = true; }
  // The work has ended. Those who waited see what the thread wrote before.
  void End() {
    {
      const std::lock_guard lock(mutex_);
      runs_ = false;
      done_.notify_one();
      if (!std::exchange(notifies_, false)) return;
    }
    on_finished_();
  }

  // Has on_finished called once, at the end of the work, or now if no work is running.
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
