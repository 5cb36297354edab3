// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How gRPC starts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <vector>

#include "client/client.h"
#include "client/tune_grpc.h"

namespace warpfold {
namespace {

// gRPC would end the process. It starts once in a process, so that each case has its own.
TEST(GrpcStartTest, WithFewDescriptorsCallsFailAndAnotherClientCanBeMade) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto start = [](std::size_t left, bool tunes) {
    constexpr rlimit kFew = {.rlim_cur = 64, .rlim_max = 64};
    setrlimit(RLIMIT_NOFILE, &kFew);
    std::vector<int> taken;
    for (int file = 0; (file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(file);
    for (; left > 0 && !taken.empty(); --left, taken.pop_back()) close(taken.back());
    if (tunes) TuneGrpc().IgnoreError();
    Client early("unix:/nobody-listens", {.max_attempts = 1});
    const absl::Status without = early.GetServerInfo({.timeout = absl::Seconds(10)}).status();
    for (const int file : taken) close(file);
    if (tunes && !TuneGrpc().ok()) std::_Exit(1);
    Client client("unix:/nobody-listens", {.max_attempts = 1});
    const absl::Status with = client.GetServerInfo().status();
    std::cerr << without.code() << ", then " << with.code() << std::endl;
    std::_Exit(0);
  };
  for (const bool tunes : {false, true}) {
    for (std::size_t left = 0; left < 4; ++left) {
      EXPECT_EXIT(start(left, tunes), testing::ExitedWithCode(0), "RESOURCE_EXHAUSTED, then UNAVAILABLE")
          << left;
    }
    EXPECT_EXIT(start(40, tunes), testing::ExitedWithCode(0), "UNAVAILABLE, then UNAVAILABLE");
  }
}

}  // namespace
}  // namespace warpfold
