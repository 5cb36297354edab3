// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool does on threads; job_queue_test.cc tests in which order.
#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace warpfold::kernels::cpu {
namespace {

// A job whose tasks that have run the pool's owner may count.
class Counted {
 public:
  explicit Counted(std::size_t tasks) : runs_(tasks) {}

  Job job() {
    return {.tasks = runs_.size(),
            .run = [this](std::size_t task) { ++runs_[task]; },
            .on_end = [this] { End(); }};
  }
  void ExpectEnded() const {
    EXPECT_EQ(ends_, 1);
    EXPECT_TRUE(all_had_run_) << "when it ended";
  }

 private:
  void End() {
    ++ends_;
    bool all = true;
    for (const std::atomic<int>& runs : runs_) all = all && runs == 1;
    all_had_run_ = all;
  }

  std::vector<std::atomic<int>> runs_;
  std::atomic<int> ends_ = 0;
  std::atomic<bool> all_had_run_ = false;
};

TEST(ThreadPoolTest, RunsEachTaskOnceAndThenTheEnd) {
  std::deque<Counted> jobs;
  for (int i = 0; i < 200; ++i) jobs.emplace_back(1 + i % 17);
  {
    ThreadPool pool(3);
    ASSERT_EQ(pool.size(), 3);
    std::vector<std::thread> callers;
    for (std::size_t caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&, caller] {
        for (std::size_t i = caller; i < jobs.size(); i += 4) pool.Run(i % 5, jobs[i].job());
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  for (const Counted& job : jobs) job.ExpectEnded();
}

TEST(ThreadPoolTest, TheDestructorRunsWhatIsQueued) {
  std::deque<Counted> jobs;
  for (int i = 0; i < 10; ++i) jobs.emplace_back(3);
  std::latch queued(1);
  auto pool = std::make_unique<ThreadPool>(1);
  pool->Run(0, {.tasks = 1, .run = [&queued](std::size_t) { queued.wait(); }});
  for (Counted& job : jobs) pool->Run(1, job.job());
  std::thread destroyer([&pool] { pool.reset(); });
  // So that the destructor has most likely begun by then: otherwise the test sees less, but does not fail.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  queued.count_down();
  destroyer.join();
  for (const Counted& job : jobs) job.ExpectEnded();
}

// Each task waits for all: it ends only if as many threads as the pool has run at the same time.
TEST(ThreadPoolTest, OneJobRunsOnAllThreads) {
  constexpr int kThreads = 4;
  std::barrier all(kThreads);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  {
    ThreadPool pool(kThreads);
    for (int round = 0; round < 20; ++round) {
      std::latch ended(1);
      pool.Run(0, {.tasks = kThreads,
                   .run =
                       [&](std::size_t) {
                         all.arrive_and_wait();
                         const std::lock_guard lock(mutex);
                         threads.insert(std::this_thread::get_id());
                       },
                   .on_end = [&ended] { ended.count_down(); },
                   .task_time = std::chrono::nanoseconds(1)});
      ended.wait();
    }
  }
  EXPECT_EQ(threads.size(), static_cast<std::size_t>(kThreads));
}

// At the end of a job its owner starts the next one, or releases what the job refers to.
TEST(ThreadPoolTest, AnEndMayRunTheNextJob) {
  constexpr int kJobs = 100;
  std::latch ended(1);
  ThreadPool pool(2);
  int jobs = 0;
  std::function<void()> next = [&] {
    if (++jobs == kJobs) return ended.count_down();
    pool.Run(0, {.tasks = 2, .run = [](std::size_t) {}, .on_end = next});
  };
  next();
  ended.wait();
  EXPECT_EQ(jobs, kJobs);
}

}  // namespace
}  // namespace warpfold::kernels::cpu
