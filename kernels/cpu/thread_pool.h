// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A fixed number of threads that run the tasks of jobs, in the order of job_queue.h: groups get the same
// time, and the jobs of a group take turns.
//
// Threads: Run may be called from any thread. The destructor runs what is queued, then joins. Mutexes are
// standard ones, which ThreadSanitizer understands, here as in the server (docs/adr/0010).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cpu/group_times.h"
#include "kernels/cpu/job_queue.h"

namespace warpfold::kernels::cpu {

class ThreadPool {
 public:
  // Makes fewer if the system allows no more of them: see size().
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }
  // The time that groups have had on this pool's threads; callers add the time that they have had on others.
  GroupTimes& times() { return times_; }
  // The job's functions run on the pool's threads; the last of them is on_end, after which the pool has
  // forgotten the job.
  void Run(std::uint64_t group, Job job);

 private:
  void Work();

  GroupTimes times_;
  std::mutex mutex_;
  std::condition_variable has_work_;
  JobQueue queue_;         // guarded by mutex_
  std::size_t idle_ = 0;   // threads that wait for work; guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace warpfold::kernels::cpu
