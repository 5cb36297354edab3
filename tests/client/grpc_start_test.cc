// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How gRPC starts: a test of its own, since it does so once in a process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "client/client.h"
#include "client/tune_grpc.h"

namespace warpfold {
namespace {

// gRPC would end the process.
TEST(GrpcStartTest, WithoutADescriptorCallsFailAndAnotherClientCanBeMade) {
  constexpr rlimit kFew = {.rlim_cur = 64, .rlim_max = 64};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &kFew), 0);
  std::vector<int> taken;
  for (int file = 0; (file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(file);
  TuneGrpc();
  Client early("unix:/nobody-listens");
  const absl::Status without = early.GetServerInfo().status();
  EXPECT_EQ(without.code(), absl::StatusCode::kResourceExhausted) << without;
  for (const int file : taken) close(file);
  TuneGrpc();
  Client client("unix:/nobody-listens", {.max_attempts = 1});
  EXPECT_EQ(client.GetServerInfo().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(early.GetServerInfo().status(), without);
}

}  // namespace
}  // namespace warpfold
