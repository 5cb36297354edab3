// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "tests/proto/control_groups.h"

namespace warpfold {
namespace {

class ProcessorsTest : public ControlGroupTest {
 protected:
  int Count() const { return ProcessorCount(proc(), sys()); }
};

// Runs in a separate thread, since the set belongs to the thread.
TEST_F(ProcessorsTest, ThoseOnWhichTheThreadMayRun) {
  std::thread([this] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    EXPECT_EQ(Count(), CPU_COUNT(&all));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int processor = 0; CPU_COUNT(&one) == 0; ++processor) {
      if (CPU_ISSET(processor, &all)) CPU_SET(processor, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(Count(), 1);
  }).join();
}

TEST_F(ProcessorsTest, TheTimeThatTheGroupsGrant) {
  const int all = Count();
  Write("proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(Count(), all) << "no files";
  Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Count(), all);
  Write("sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(Count(), 1) << "a group above has a limit";
  Write("sys/fs/cgroup/a/cpu.max", "1000 100000\n");
  EXPECT_EQ(Count(), 1) << "a hundredth of one";
  Write("sys/fs/cgroup/a/cpu.max", "5000000000 100000\n");
  EXPECT_EQ(Count(), all) << "more than there are";
}

TEST_F(ProcessorsTest, PartsOfAProcessorAreRoundedUp) {
  const int all = Count();
  if (all == 1) GTEST_SKIP() << "there is one processor";
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "100001 100000\n");
  EXPECT_EQ(Count(), 2);
}

TEST_F(ProcessorsTest, VersionOne) {
  const int all = Count();
  Write("proc/self/cgroup", "3:cpu,cpuacct:/a\n4:memory:/a\n0::/\n");
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Count(), all) << "without a quota";
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Count(), all);
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(ProcessorsTest, VersionOneByTheNameOfAllItsControllers) {
  Write("proc/self/cgroup", "3:cpu,cpuacct:/a\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(ProcessorsTest, NonsenseIsNoLimit) {
  const int all = Count();
  Write("proc/self/cgroup", "0::/\n");
  for (const std::string text :
       {"", "some", "1", "0 100000", "-5 100000", "1 0", "1 2 3", "nan nan", "x 100000"}) {
    Write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Count(), all) << text;
  }
}

}  // namespace
}  // namespace warpfold
