// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Servers of which one is silent: calls, and questions about the servers, go on with the others.
#include <gtest/gtest.h>

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/client/fake_service.h"
#include "tests/client/full_listener.h"
#include "tests/client/stalling_proxy.h"

namespace warpfold {
namespace {

constexpr int kCalls = 20;

class DeadTargetTest : public testing::Test {
 protected:
  // How many of the calls fail.
  static int Failures(Client& client, absl::Duration timeout, absl::Duration pause) {
    int failures = 0;
    for (int i = 0; i < kCalls; ++i) {
      const auto sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3}, {.timeout = timeout});
      if (!sum.ok()) ++failures;
      absl::SleepFor(pause);
    }
    return failures;
  }

  const FullListener dead_;
  FakeService service_;
  const FakeServer alive_{service_};
};

TEST_F(DeadTargetTest, CallsGoToTheOtherServer) {
  Client client({dead_.target(), alive_.target()});
  const absl::Time start = absl::Now();
  EXPECT_LE(Failures(client, absl::Seconds(5), absl::ZeroDuration()), 1);
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
}

TEST_F(DeadTargetTest, ACallTooShortToLearnOfItSparesTheNextOnes) {
  Client client({dead_.target(), alive_.target()});
  EXPECT_LE(Failures(client, absl::Seconds(1), absl::Milliseconds(500)), 1);
}

TEST_F(DeadTargetTest, CallsGoToTheOtherAddressOfAName) {
  Client client("ipv4:" + dead_.target() + "," + alive_.target());
  EXPECT_LE(Failures(client, absl::Seconds(5), absl::ZeroDuration()), 1);
}

TEST_F(DeadTargetTest, AnArrayInSharesGoesToTheOtherServer) {
  Client client({dead_.target(), alive_.target()});
  const std::vector<std::int32_t> values(16 << 20, 1);
  const auto sum = client.Reduce(kSum, values, {.timeout = absl::Seconds(20), .streams = 2});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 16 << 20);
}

TEST_F(DeadTargetTest, QuestionsAreAnsweredByTheOtherServer) {
  Client client({dead_.target(), alive_.target()});
  const absl::Time start = absl::Now();
  const absl::StatusOr<bool> serving = client.IsServing({.timeout = absl::Seconds(5)});
  EXPECT_TRUE(serving.ok() && *serving) << serving.status();
  const auto info = client.GetServerInfo({.timeout = absl::Seconds(5)});
  EXPECT_TRUE(info.ok() && info->version() == "fake") << info.status();
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
}

TEST_F(DeadTargetTest, QuestionsAreAnsweredWhileAServerThatWasThereIsSilent) {
  StallingProxy proxy(alive_.port());
  Client client({proxy.target(), alive_.target()});
  // Both connections are made, so that no limit on connecting helps.
  for (int i = 0; i < 2; ++i) {
    const auto sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
    ASSERT_TRUE(sum.ok()) << sum.status();
  }
  proxy.StallAfter(0);
  const absl::Time start = absl::Now();
  const absl::StatusOr<bool> serving = client.IsServing({.timeout = absl::Seconds(10)});
  EXPECT_TRUE(serving.ok() && *serving) << serving.status();
  const auto info = client.GetServerInfo({.timeout = absl::Seconds(10)});
  EXPECT_TRUE(info.ok()) << info.status();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST_F(DeadTargetTest, WithoutAServerTheErrorComesInTime) {
  const FullListener second;
  Client client({dead_.target(), second.target()});
  const absl::Time start = absl::Now();
  EXPECT_FALSE(client.IsServing({.timeout = absl::Seconds(1)}).ok());
  EXPECT_FALSE(client.GetServerInfo({.timeout = absl::Seconds(1)}).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST_F(DeadTargetTest, SilentTargetsAreAskedForAdviceAtOnce) {
  const std::vector<FullListener> silent(8);
  std::vector<std::string> targets;
  for (const FullListener& listener : silent) targets.push_back(listener.target());
  targets.push_back(alive_.target());
  Client client(targets);
  const std::vector<std::int32_t> values(4 << 20, 1);
  const absl::Time start = absl::Now();
  const auto sum = client.Reduce(kSum, values);
  EXPECT_TRUE(sum.ok()) << sum.status();
  // One after another they take 2 s each.
  EXPECT_LT(absl::Now() - start, absl::Seconds(12));
}

// The pauses between the questions would take 400 ms.
TEST(NoServerTest, TheQuestionWhetherItServesHasItsTimeout) {
  FakeService service;
  Client client("127.0.0.1:" + std::to_string(FakeServer(service).port()));
  const CallOptions options = {.timeout = absl::Milliseconds(1)};
  EXPECT_FALSE(client.IsServing(options).ok());
  const absl::Time start = absl::Now();
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; ++i) EXPECT_FALSE(client.IsServing(options).ok());
  EXPECT_LT(absl::Now() - start, kTimes * absl::Milliseconds(400));
}

TEST(NoServerTest, TheQuestionWhetherItServesIsCancelled) {
  FakeService service;
  Client client("127.0.0.1:" + std::to_string(FakeServer(service).port()));
  std::stop_source source;
  // Asked in the first pause.
  const auto stop = [&source] { return source.request_stop() || true; };
  const absl::Status status = client.IsServing({.stop = source.get_token(), .keep_going = stop}).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// In a rolling restart the second server may be the one that comes back first.
TEST(NoServerTest, TheQuestionWhetherItServesIsAskedOfEachTargetAnew) {
  FakeService service;
  const auto gone = [&service] { return FakeServer(service).port(); };
  const int second = gone();
  std::optional<FakeServer> server;
  Client client({"127.0.0.1:" + std::to_string(gone()), "127.0.0.1:" + std::to_string(second)});
  // After them gRPC by itself would connect only after more than the question takes.
  for (int i = 0; i < 4; ++i) ASSERT_FALSE(client.IsServing().ok());
  // Asked before and in the pauses.
  const auto start = [&] {
    if (!server.has_value()) server.emplace(service, second);
    return true;
  };
  const absl::StatusOr<bool> serving = client.IsServing({.keep_going = start});
  EXPECT_TRUE(serving.ok() && *serving) << serving.status();
}

TEST_F(DeadTargetTest, QuestionsAreCancelledByTheThreadThatAsks) {
  const FullListener second;
  Client client({dead_.target(), second.target()});
  int asked = 0;
  const CallOptions options = {.keep_going = [&asked] { return ++asked < 3; }};
  const absl::Status status = client.GetServerInfo(options).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace warpfold
