// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A peer that stops reading but does not close: the kernel must end the connection, and with it the call
// whose chunk is stuck in it. Takes the 20 s that client/connections/connection.cc sets, unless the call
// itself ends before.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/client/fake_service.h"
#include "tests/client/stalling_proxy.h"
#include "tests/temporary_folder.h"

namespace warpfold {
namespace {

TEST(DeadConnectionTest, CallEndsAndTheNextOneConnectsAnew) {
  FakeService service;
  const FakeServer server(service);
  StallingProxy proxy(server.port());
  Client client(proxy.target());
  proxy.StallAfter(4096);
  {
    const std::vector<std::int32_t> values(16 << 20, 1);
    const absl::Status status = client.Reduce(Spec{.operators = {"sum"}}, values).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
  proxy.Resume();
  const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 6);
}

// The call's end does not wait for the peer, although gRPC still has to send from the caller's memory.
class CallThatEndsTest : public testing::TestWithParam<const char*> {
 protected:
  CallThatEndsTest() { proxy_.StallAfter(4096); }

  // The status of a call, which ends soon after it has to. Then a new connection is made.
  absl::Status StatusOf(const CallOptions& options) {
    Client client(proxy_.target());
    absl::Status status;
    {
      const std::vector<std::int32_t> values(16 << 20, 1);
      const absl::Time start = absl::Now();
      status = client.Reduce(Spec{.operators = {"sum"}}, values, options).status();
      EXPECT_LT(absl::Now() - start, absl::Seconds(10));
    }
    proxy_.Resume();
    const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
    EXPECT_TRUE(sum.ok() && *sum == 6) << sum.status();
    return status;
  }

  FakeService service_;
  const FakeServer server_{service_};
  const TemporaryFolder folder_;
  StallingProxy proxy_{server_.port(), *GetParam() == '\0' ? "" : folder_.Path(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Transports, CallThatEndsTest, testing::Values("", "stalling_proxy"));

TEST_P(CallThatEndsTest, AtItsDeadline) {
  const absl::Status status = StatusOf({.timeout = absl::Seconds(1)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_P(CallThatEndsTest, WhenItIsCancelled) {
  std::stop_source source;
  const std::jthread canceller([&] {
    absl::SleepFor(absl::Seconds(1));
    source.request_stop();
  });
  const absl::Status status = StatusOf({.stop = source.get_token()});
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// The process cannot open any file while an object of this class lives.
class WithoutFiles {
 public:
  WithoutFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    // So that a few are enough.
    const rlimit small = {256, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &small);
    for (int file = eventfd(0, EFD_CLOEXEC); file >= 0; file = eventfd(0, EFD_CLOEXEC)) {
      files_.push_back(file);
    }
    EXPECT_EQ(errno, EMFILE);
  }
  ~WithoutFiles() {
    for (const int file : files_) close(file);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_ = {};
  std::vector<int> files_;
};

TEST_P(CallThatEndsTest, AtItsDeadlineWithoutFiles) {
  Client client(proxy_.target());
  EXPECT_TRUE(client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3}).ok());
  proxy_.StallAfter(4096);
  {
    const WithoutFiles without;
    const std::vector<std::int32_t> values(16 << 20, 1);
    const absl::Time start = absl::Now();
    const absl::Status status =
        client.Reduce(kSum, values, {.timeout = absl::Seconds(1), .streams = 1}).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  }
  proxy_.Resume();
  const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
  EXPECT_TRUE(sum.ok() && *sum == 6) << sum.status();
}

}  // namespace
}  // namespace warpfold
