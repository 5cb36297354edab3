// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/system_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "tests/proto/control_groups.h"

namespace warpfold {
namespace {

class MemoryGroupTest : public ControlGroupTest {
 protected:
  std::optional<std::uint64_t> Limit() const { return ControlGroupLimit(proc(), sys()); }
  std::uint64_t Available() const { return AvailableMemory(proc(), sys()); }
};

TEST_F(MemoryGroupTest, TheLeastLimitOnTheWayUp) {
  EXPECT_EQ(Limit(), std::nullopt) << "no /proc";
  Write("proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(Limit(), std::nullopt) << "no files";
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(Limit(), std::nullopt);
  Write("sys/fs/cgroup/a/memory.max", "1000\n");
  EXPECT_EQ(Limit(), 1000u);
  Write("sys/fs/cgroup/a/b/memory.max", "2000\n");
  EXPECT_EQ(Limit(), 1000u);
  Write("sys/fs/cgroup/a/b/memory.max", "500\n");
  EXPECT_EQ(Limit(), 500u);
  Write("sys/fs/cgroup/a/c/memory.max", "1\n");
  EXPECT_EQ(Limit(), 500u) << "another's";
}

TEST_F(MemoryGroupTest, AContainersRoot) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(Limit(), 4096u);
  Write("proc/self/cgroup", "0::/of/the/host\n");
  EXPECT_EQ(Limit(), 4096u);
}

TEST_F(MemoryGroupTest, VersionOne) {
  Write("proc/self/cgroup", "9:name=systemd:/a\n4:cpu,memory:/a\n0::/\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Limit(), std::nullopt);
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "77\n");
  EXPECT_EQ(Limit(), 77u);
}

TEST_F(MemoryGroupTest, WhatIsAvailable) {
  EXPECT_EQ(Available(), UINT64_MAX) << "no /proc";
  Write("proc/meminfo", "MemTotal:       24000 kB\nMemFree: 7 kB\nMemAvailable:   20000 kB\n");
  EXPECT_EQ(Available(), 20'480'000u);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(Available(), 4096u);
  Write("sys/fs/cgroup/memory.current", "4000\n");
  EXPECT_EQ(Available(), 96u);
  Write("sys/fs/cgroup/memory.stat", "anon 3000\ninactive_anon 500\ninactive_file 1000\nactive_file 7\n");
  EXPECT_EQ(Available(), 1103u) << "pages of files that the kernel drops";
  Write("sys/fs/cgroup/memory.current", "999\n");
  EXPECT_EQ(Available(), 4096u) << "read a moment later";
  Write("sys/fs/cgroup/memory.current", "7000\n");
  EXPECT_EQ(Available(), 0u) << "above a limit that was lowered";
  Write("sys/fs/cgroup/memory.current", "0\n");
  Write("proc/meminfo", "MemAvailable: 1 kB\n");
  EXPECT_EQ(Available(), 1024u);
}

TEST_F(MemoryGroupTest, WhatIsLeftOfVersionOne) {
  Write("proc/self/cgroup", "4:cpu,memory:/a\n");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "400\n");
  Write("sys/fs/cgroup/memory/a/memory.stat",
        "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 20\n");
  EXPECT_EQ(Available(), 720u);
}

TEST_F(MemoryGroupTest, NonsenseIsNoLimit) {
  Write("proc/self/cgroup", "\n0\n::\n0::a\n0::/a:b\n");
  Write("sys/fs/cgroup/a:b/memory.max", "some\n");
  EXPECT_EQ(Limit(), std::nullopt);
  Write("sys/fs/cgroup/a:b/memory.max", "12\n");
  EXPECT_EQ(Limit(), 12u);
}

}  // namespace
}  // namespace warpfold
