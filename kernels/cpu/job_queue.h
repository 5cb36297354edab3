// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which the threads of a pool run the tasks of several jobs. A job is what one Start has left
// for them: tasks that may run in any order and concurrently. Jobs belong to groups, which share the threads.
//
// Groups get the same time: start-time fair queueing (Goyal, Vin and Cheng, 1996), extended to several
// servers as by Jin, Chase and Kaur (2004, "SFQ(D)"). Each group has a tag, which the time spent on its tasks
// advances, and the group with the lowest tag is next. The expected time is charged when a batch is handed
// out, and corrected when the time has been measured. A group that arrives, or returns, starts where the last
// batch that was handed out did, but not before its own tag: so nobody saves up for later, and a group that
// is away for a moment is still charged for what it has had. When all threads are idle, everything is
// forgotten. Within a group jobs take turns.
//
// A turn is a batch of adjacent tasks that takes about kTurn, but is no more than the job's share for each
// thread: so a single job is spread over all threads, each of which reads its own part of memory.
//
// Threads: not thread-safe; its owner locks (thread_pool.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>

#include "kernels/cpu/tuning.h"

namespace warpfold::kernels::cpu {

struct Job {
  std::size_t tasks = 0;  // at least 1
  // Runs one of tasks 0 to tasks - 1; called from several threads at once.
  std::function<void(std::size_t task)> run;
  // Called once, when all tasks have run, by the thread that ran the last one.
  std::function<void()> on_end = {};
  std::chrono::nanoseconds task_time = {};  // what a task is expected to take; zero: unknown
};

class JobQueue {
 public:
  using Time = std::chrono::nanoseconds;
  // When there are kMaxGroups, groups without jobs are forgotten whatever they have had.
  static constexpr std::size_t kMaxGroups = 1024;

  // Tasks [begin, end) of a job that were handed out to one thread.
  struct Batch;

  // `threads` share the jobs, at least 1.
  explicit JobQueue(std::size_t threads) : threads_(threads) {}

  void Add(std::uint64_t group, Job job);
  bool has_tasks() const { return waiting_ > 0; }

  // Returns the batch whose turn it is. Only while has_tasks().
  Batch Pick();
  // The batch has run, and took `took`. If it was the last of its job, returns the function that the job
  // wants called at its end, and the queue forgets the job.
  std::function<void()> End(const Batch& batch, Time took);

  // How many groups are remembered.
  std::size_t groups() const { return groups_.size(); }

 private:
  struct OpenJob {
    Job job;
    std::size_t next = 0;     // the first task that has not been handed out
    std::size_t running = 0;  // handed out, and not ended
  };
  using Jobs = std::list<OpenJob>;
  struct Group {
    Time tag = {};
    Jobs waiting;  // have tasks to hand out; the one whose turn is next is first
    Jobs running;  // all of whose tasks are handed out
  };
  using Groups = std::map<std::uint64_t, Group>;

  static bool IsIdle(const Group& group) { return group.waiting.empty() && group.running.empty(); }
  Groups::iterator NextGroup();
  std::size_t BatchSize(const OpenJob& job) const;

  std::size_t threads_;
  Groups groups_;
  std::size_t waiting_ = 0;  // jobs of all groups that have tasks to hand out
  std::size_t running_ = 0;  // batches
  Time start_ = {};          // of the last batch that was handed out: its group's tag before that
};

struct JobQueue::Batch {
  Groups::iterator group;
  Jobs::iterator job;
  std::size_t begin = 0;
  std::size_t end = 0;
  Time expected = kTurn;  // if nothing is known

  void Run() const {
    for (std::size_t task = begin; task < end; ++task) job->job.run(task);
  }
};

}  // namespace warpfold::kernels::cpu
