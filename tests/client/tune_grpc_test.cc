// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// gRPC's settings after TuneGrpc. The test runs twice: as it is, and with a strategy named in the
// environment.
#include "client/tune_grpc.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/synchronization/mutex.h"
#include "client/client.h"

namespace warpfold {
namespace {

// The strategy epoll1 has one epoll set for the process; `poll` has none.
bool HasEpollSet() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) == "anon_inode:[eventpoll]") return true;
  }
  return false;
}

TEST(TuneGrpcTest, ThreadsWaitForTheirOwnSocketsUnlessTheEnvironmentSaysOtherwise) {
  const char* const value = std::getenv("GRPC_POLL_STRATEGY");
  const std::string given = value == nullptr ? "" : value;
  ASSERT_TRUE(TuneGrpc().ok());
  Client client("unix:/nobody-listens");
  const auto info = client.GetServerInfo({.timeout = absl::Milliseconds(100)});
  EXPECT_FALSE(info.ok());
  EXPECT_EQ(HasEpollSet(), given == "epoll1");
  const char* const after = std::getenv("GRPC_POLL_STRATEGY");
  EXPECT_EQ(after == nullptr ? "" : after, given) << "programs that this one starts are not to have it";
}

// A lock that is checked would end the process here.
TEST(TuneGrpcTest, LocksMayBeTakenInEitherOrder) {
  ASSERT_TRUE(TuneGrpc().ok());
  absl::Mutex first;
  absl::Mutex second;
  for (absl::Mutex* const outer : {&first, &second}) {
    absl::MutexLock lock(outer);
    absl::MutexLock inner(outer == &first ? &second : &first);
  }
}

}  // namespace
}  // namespace warpfold
