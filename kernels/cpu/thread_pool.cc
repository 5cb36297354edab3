// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <system_error>
#include <utility>

namespace warpfold::kernels::cpu {

ThreadPool::ThreadPool(int threads) : queue_(static_cast<std::size_t>(std::max(threads, 1))) {
  threads_.reserve(threads);
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    // Running threads must be joined. The destructor does that, but it does not run if the constructor
    // throws.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(std::uint64_t group, Job job) {
  std::size_t wanted = job.tasks;
  {
    const std::lock_guard lock(mutex_);
    queue_.Add(group, std::move(job));
    wanted = std::min(wanted, idle_);
  }
  for (std::size_t thread = 0; thread < wanted; ++thread) has_work_.notify_one();
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (!stopping_ && !queue_.has_tasks()) {
      ++idle_;
      has_work_.wait(lock);
      --idle_;
    }
    if (!queue_.has_tasks()) return;
    const JobQueue::Batch batch = queue_.Pick();
    lock.unlock();
    const auto begin = std::chrono::steady_clock::now();
    {
      const GroupWork work(times_, batch.group->first);
      batch.Run();
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    lock.lock();
    if (const std::function<void()> on_end = queue_.End(batch, took)) {
      lock.unlock();
      on_end();
      lock.lock();
    }
  }
}

}  // namespace warpfold::kernels::cpu
