// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A fixed number of threads that run tasks in the order in which they were given.
//
// Threads: Run may be called from any thread. The destructor runs what is queued, then joins. Standard
// mutexes, which ThreadSanitizer understands, here as in the server (docs/adr/0010).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace warpfold::kernels::cpu {

class ThreadPool {
 public:
  // Makes fewer where the system allows no more of them: see size().
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }
  void Run(std::function<void()> task);

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace warpfold::kernels::cpu
