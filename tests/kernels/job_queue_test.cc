// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which a pool's threads run tasks, with invented times: nothing here depends on a clock.
#include "kernels/cpu/job_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace warpfold::kernels::cpu {
namespace {

using std::chrono::microseconds;
using Time = JobQueue::Time;

constexpr std::uint64_t kGreedy = 1;
constexpr std::uint64_t kModest = 2;

class JobQueueTest : public testing::Test {
 protected:
  // Adds a job each of whose tasks takes this long, whatever the queue expects.
  void Add(std::uint64_t group, const std::string& name, std::size_t tasks, Time task_time,
           Time expected = {}) {
    queue_.Add(group, {.tasks = tasks,
                       .run =
                           [this, name, task_time](std::size_t) {
                             ran_.push_back(name);
                             batch_took_ += task_time;
                           },
                       .on_end = [this, name] { ended_.push_back(name); },
                       .task_time = expected});
  }

  // Runs a batch as a thread would, and charges its time to the group.
  void RunOne() {
    batch_took_ = {};
    const JobQueue::Batch batch = queue_.Pick();
    batch.Run();
    time_[batch.group->first] += batch_took_;
    End(batch, batch_took_);
  }
  void End(const JobQueue::Batch& batch, Time took) {
    if (const auto on_end = queue_.End(batch, took)) on_end();
  }
  void RunAll() {
    while (queue_.has_tasks()) RunOne();
  }

  JobQueue queue_{1};
  std::vector<std::string> ran_;    // the jobs of tasks that ran
  std::vector<std::string> ended_;  // jobs
  std::map<std::uint64_t, Time> time_;

 private:
  Time batch_took_ = {};
};

TEST_F(JobQueueTest, GroupsGetTheSameTime) {
  for (int i = 0; i < 32; ++i) Add(kGreedy, "greedy", 64, microseconds(200));
  Add(kModest, "modest", 1000, microseconds(30));
  while (ended_.empty()) RunOne();
  EXPECT_EQ(ended_, std::vector<std::string>{"modest"}) << "though the others came first";
  EXPECT_EQ(time_[kModest], 1000 * microseconds(30));
  EXPECT_NEAR(time_[kGreedy] / microseconds(1), time_[kModest] / microseconds(1), 1000);
}

// Its tasks take longer than a batch should: the other group gets its turns in return.
TEST_F(JobQueueTest, TimeCountsNotTasks) {
  Add(kGreedy, "slow", 100, std::chrono::milliseconds(10));
  Add(kModest, "fast", 10000, microseconds(10));
  while (ended_.empty()) RunOne();
  EXPECT_EQ(ended_, std::vector<std::string>{"fast"});
  EXPECT_LE(time_[kGreedy], time_[kModest] + std::chrono::milliseconds(20));
}

TEST_F(JobQueueTest, JobsOfAGroupTakeTurns) {
  for (const char* name : {"a", "b", "c"}) Add(kGreedy, name, 3, kTurn);
  RunAll();
  EXPECT_EQ(ran_, (std::vector<std::string>{"a", "b", "c", "a", "b", "c", "a", "b", "c"}));
  EXPECT_EQ(ended_, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(JobQueueTest, AShortJobEndsBeforeLongOnesOfItsGroup) {
  for (int i = 0; i < 8; ++i) Add(kGreedy, "long", 1000, microseconds(300));
  for (int i = 0; i < 20; ++i) RunOne();
  ran_.clear();
  Add(kGreedy, "short", 2, microseconds(10));
  while (ended_.empty()) RunOne();
  EXPECT_EQ(ended_, std::vector<std::string>{"short"});
  EXPECT_LE(ran_.size(), 2 * (8 + 1)) << "each of the others had two turns of a task at most";
}

TEST_F(JobQueueTest, ABatchTakesATurn) {
  Add(kGreedy, "job", 100, microseconds(100));
  RunOne();
  EXPECT_EQ(ran_.size(), 1u) << "it is not known yet how long a task takes";
  RunOne();
  EXPECT_EQ(ran_.size(), 1u + 5u);
  RunAll();
  EXPECT_EQ(ran_.size(), 100u);

  ran_.clear();
  Add(kGreedy, "known", 100, microseconds(50), microseconds(50));
  RunOne();
  EXPECT_EQ(ran_.size(), 10u);
}

TEST_F(JobQueueTest, OneJobIsSpreadOverAllThreads) {
  queue_ = JobQueue(4);
  Add(kGreedy, "job", 64, microseconds(1), microseconds(1));
  std::vector<JobQueue::Batch> batches;
  while (queue_.has_tasks()) batches.push_back(queue_.Pick());
  ASSERT_EQ(batches.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batches[i].begin, 16 * i) << "each has neighbouring tasks";
    EXPECT_EQ(batches[i].end, 16 * (i + 1));
  }
  for (const JobQueue::Batch& batch : batches) End(batch, microseconds(16));
}

TEST_F(JobQueueTest, AJobEndsOnceAndAfterItsLastBatch) {
  queue_ = JobQueue(3);
  Add(kGreedy, "job", 3, microseconds(1));
  const JobQueue::Batch first = queue_.Pick();
  const JobQueue::Batch second = queue_.Pick();
  End(second, microseconds(1));
  const JobQueue::Batch third = queue_.Pick();
  EXPECT_FALSE(queue_.has_tasks());
  End(third, microseconds(1));
  EXPECT_TRUE(ended_.empty()) << "the first batch still runs";
  End(first, microseconds(1));
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(JobQueueTest, AJobWithoutAnEndJustGoes) {
  queue_.Add(kGreedy, {.tasks = 1, .run = [](std::size_t) {}});
  RunAll();
  EXPECT_EQ(queue_.groups(), 0u);
}

// Between two jobs it has none: it must not lose what it has had, nor gain anything from having waited.
TEST_F(JobQueueTest, WhoIsAwayForAMomentStartsWhereItWas) {
  Add(kGreedy, "long", 100000, microseconds(100));
  for (int i = 0; i < 50; ++i) {
    Add(kModest, "modest", 20, microseconds(100), microseconds(100));
    const std::size_t before = ended_.size();
    while (ended_.size() == before) RunOne();
  }
  EXPECT_NEAR(time_[kGreedy] / microseconds(1), time_[kModest] / microseconds(1), 1000);
}

TEST_F(JobQueueTest, NobodySavesUp) {
  Add(kGreedy, "long", 100000, microseconds(100));
  for (int i = 0; i < 1000; ++i) RunOne();
  const Time before = time_[kGreedy];
  Add(kModest, "late", 100, microseconds(100), microseconds(100));
  while (ended_.empty()) RunOne();
  EXPECT_NEAR((time_[kGreedy] - before) / microseconds(1), time_[kModest] / microseconds(1), 1000);
}

TEST_F(JobQueueTest, ForgetsGroups) {
  for (std::uint64_t group = 0; group < 10; ++group) Add(group, "job", 1, microseconds(10));
  RunAll();
  EXPECT_EQ(queue_.groups(), 0u) << "all threads are idle";

  Add(kGreedy, "long", 100000, microseconds(100));
  for (std::uint64_t group = 10; group < 20; ++group) {
    Add(group, "job", 5, microseconds(100), microseconds(100));
  }
  for (int i = 0; i < 100; ++i) RunOne();
  EXPECT_EQ(queue_.groups(), 1u) << "the one with jobs has had as much as they";
}

TEST_F(JobQueueTest, RemembersSoManyGroupsAndNoMore) {
  queue_ = JobQueue(2);
  Add(kGreedy, "long", 2, microseconds(1));
  const JobQueue::Batch holds = queue_.Pick();  // so that the threads are never all idle
  for (std::uint64_t group = 10; group < 10 + 3 * JobQueue::kMaxGroups; ++group) {
    Add(group, "job", 1, microseconds(1));
    RunOne();
    EXPECT_LE(queue_.groups(), JobQueue::kMaxGroups);
  }
  End(holds, microseconds(1));
  RunAll();
  EXPECT_EQ(queue_.groups(), 0u);
}

}  // namespace
}  // namespace warpfold::kernels::cpu
