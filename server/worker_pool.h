// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads for what may block: copying, waiting for slots and for devices. The transport's own threads
// never do.
//
// Threads: all methods from any thread, also from tasks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace warpfold::server {

class WorkerPool {
 public:
  // Makes fewer where the system allows no more of them: see size().
  explicit WorkerPool(int threads);
  // Runs what is still queued, then joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  // Tasks start in the order of these calls. The queue is as long as admission lets it be.
  void Run(std::function<void()> task);

  // Whether tasks wait for a thread: a task that could go on for long should then queue up again.
  bool contended() const;

 private:
  void Work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace warpfold::server
