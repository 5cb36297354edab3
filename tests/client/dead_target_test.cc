// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Several servers, one of which is silent: calls, and questions about the servers, go on with the others.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/calls/retry.h"
#include "client/client.h"
#include "proto/shared/steady_time.h"
#include "tests/client/fake_service.h"
#include "tests/client/full_listener.h"
#include "tests/client/stalling_proxy.h"
#include "tests/temporary_folder.h"

namespace warpfold {
namespace {

constexpr int kCalls = 20;
// For a call that takes 3 s to find a server dead, and would take 20 s with gRPC's default.
constexpr absl::Duration kUntilItCounts = absl::Seconds(15);

class DeadTargetTest : public testing::Test {
 protected:
  static absl::Status ReduceWithin(Client& client, absl::Duration timeout) {
    return client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3}, {.timeout = timeout}).status();
  }

  // How many of the calls fail.
  static int Failures(Client& client, absl::Duration timeout) {
    int failures = 0;
    for (int i = 0; i < kCalls; ++i) {
      const absl::Status status = ReduceWithin(client, timeout);
      EXPECT_EQ(status, absl::OkStatus()) << "call " << i;
      if (!status.ok()) ++failures;
    }
    return failures;
  }

  const FullListener dead_;
  FakeService service_;
  const FakeServer alive_{service_};
};

TEST_F(DeadTargetTest, CallsGoToTheOtherServer) {
  Client client({dead_.target(), alive_.target()});
  EXPECT_EQ(Failures(client, kUntilItCounts), 0);
}

// Which calls then go to it is a question of timing, and does not harm any call.
TEST_F(DeadTargetTest, ACallTooShortToLearnOfItSparesTheNextOnes) {
  Client client({dead_.target(), alive_.target()});
  EXPECT_FALSE(ReduceWithin(client, absl::Seconds(1)).ok());
  EXPECT_EQ(Failures(client, absl::Minutes(1)), 0);

  const ClientOptions options;
  Targets targets({dead_.target(), alive_.target()}, options);
  RetryLoop retry(targets, 0, options, absl::InfiniteFuture(), {});
  const absl::Time before = absl::Now();
  EXPECT_FALSE(retry.Again(absl::DeadlineExceededError("too short"), {}));
  // The attempt to connect to it, which ends after 3 s, is over by then.
  EXPECT_TRUE(targets.IsLeftOut(0, before + absl::Seconds(4)));
  EXPECT_EQ(targets.Best(0, before, {}), 1u);
}

// The other one is left out, too, because a short call met it while its machine stood still, and for longer
// than the dead one. A call that has time goes to both.
TEST_F(DeadTargetTest, ATargetThatShortCallsHadLeftOutIsTriedBeforeTheDeadOneAgain) {
  StallingProxy proxy(alive_.port());
  proxy.StallAfter(0);
  Client client({dead_.target(), proxy.target()});
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(ReduceWithin(client, absl::Seconds(1)).ok());
  proxy.Resume();
  EXPECT_EQ(ReduceWithin(client, absl::Minutes(1)), absl::OkStatus());
}

// A server that accepts the connection and says nothing is waited for until the deadline.
TEST_F(DeadTargetTest, ACallWhoseTimeRunsOutMeanwhileSaysSo) {
  StallingProxy proxy(alive_.port());
  proxy.StallAfter(0);
  const ClientOptions options = {.backoff = absl::Milliseconds(200)};
  Targets targets({proxy.target()}, options);
  const absl::Status failure = absl::UnavailableError("nobody there");
  absl::Status outcome;
  // Until gRPC has given up connecting for the first time, the next attempt begins after the pause.
  for (int i = 0; i < 100 && outcome.ok(); ++i) {
    RetryLoop retry(targets, 0, options, SteadyNow() + absl::Seconds(1), {});
    if (!retry.Again(failure, {})) outcome = retry.Outcome(failure);
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome)) << outcome;
  // One that gives up before that returns the failure.
  RetryLoop hasty(targets, 0, options, SteadyNow() + absl::Milliseconds(10), {});
  ASSERT_FALSE(hasty.Again(failure, {}));
  EXPECT_EQ(hasty.Outcome(failure), failure);
}

TEST_F(DeadTargetTest, CallsGoToTheOtherAddressOfAName) {
  Client client("ipv4:" + dead_.target() + "," + alive_.target());
  EXPECT_EQ(Failures(client, kUntilItCounts), 0);
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
  const absl::StatusOr<bool> serving = client.IsServing({.timeout = kUntilItCounts});
  EXPECT_TRUE(serving.ok() && *serving) << serving.status();
  const auto info = client.GetServerInfo({.timeout = kUntilItCounts});
  EXPECT_TRUE(info.ok() && info->version() == "fake") << info.status();
}

TEST_F(DeadTargetTest, QuestionsAreAnsweredWhileAServerThatWasThereIsSilent) {
  StallingProxy proxy(alive_.port());
  Client client({proxy.target(), alive_.target()});
  // Both connections exist, so no limit on connecting helps: a client that asked in turn would wait in vain.
  for (int i = 0; i < 2; ++i) {
    const auto sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3});
    ASSERT_TRUE(sum.ok()) << sum.status();
  }
  proxy.StallAfter(0);
  const absl::StatusOr<bool> serving = client.IsServing({.timeout = kUntilItCounts});
  EXPECT_TRUE(serving.ok() && *serving) << serving.status();
  const auto info = client.GetServerInfo({.timeout = kUntilItCounts});
  EXPECT_TRUE(info.ok()) << info.status();
}

TEST_F(DeadTargetTest, WithoutAServerTheErrorComesInTime) {
  const FullListener second;
  Client client({dead_.target(), second.target()});
  const absl::Time start = absl::Now();
  EXPECT_FALSE(client.IsServing({.timeout = absl::Seconds(1)}).ok());
  EXPECT_FALSE(client.GetServerInfo({.timeout = absl::Seconds(1)}).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
}

TEST_F(DeadTargetTest, SilentTargetsAreAskedForAdviceAtOnce) {
  const std::vector<FullListener> silent(16);
  std::vector<std::string> targets;
  for (const FullListener& listener : silent) targets.push_back(listener.target());
  targets.push_back(alive_.target());
  Client client(targets);
  const std::vector<std::int32_t> values(4 << 20, 1);
  const absl::Time start = absl::Now();
  const auto sum = client.Reduce(kSum, values);
  EXPECT_TRUE(sum.ok()) << sum.status();
  // One after another they take 2 s each.
  EXPECT_LT(absl::Now() - start, absl::Seconds(25));
}

// A port at which nobody listens, and that the system gives to nobody else as long as this exists, except to
// a gRPC server of this user that asks for it.
class ReservedPort {
 public:
  ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    EXPECT_EQ(setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~ReservedPort() { close(socket_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int port() const { return port_; }
  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const int socket_;
  int port_ = 0;
};

// The pauses between the questions would take 400 ms.
TEST(NoServerTest, TheQuestionWhetherItServesHasItsTimeout) {
  const ReservedPort port;
  Client client(port.target());
  const CallOptions options = {.timeout = absl::Milliseconds(1)};
  EXPECT_FALSE(client.IsServing(options).ok());
  const absl::Time start = absl::Now();
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; ++i) EXPECT_FALSE(client.IsServing(options).ok());
  EXPECT_LT(absl::Now() - start, kTimes * absl::Milliseconds(400));
}

TEST(NoServerTest, TheQuestionWhetherItServesIsCancelled) {
  const ReservedPort port;
  Client client(port.target());
  std::stop_source source;
  // Asked in the first pause.
  const auto stop = [&source] { return source.request_stop() || true; };
  const absl::Status status = client.IsServing({.stop = source.get_token(), .keep_going = stop}).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// In a rolling restart the second server may be the one that comes back first.
TEST(NoServerTest, TheQuestionWhetherItServesIsAskedOfEachTargetAnew) {
  FakeService service;
  const ReservedPort first;
  const ReservedPort second;
  std::optional<FakeServer> server;
  Client client({first.target(), second.target()});
  // After these, gRPC by itself would connect only after more time than the question takes.
  for (int i = 0; i < 4; ++i) ASSERT_FALSE(client.IsServing().ok());
  // Asked before the pauses and in them.
  const auto start = [&] {
    if (!server.has_value()) server.emplace(service, second.port());
    return true;
  };
  const absl::StatusOr<bool> serving = client.IsServing({.keep_going = start});
  EXPECT_TRUE(serving.ok() && *serving) << serving.status();
}

// This server behaves like one on a busy machine: the kernel takes the connection, and the process has no
// processor yet. While that is so, gRPC fails calls at once with the error of the attempt before.
TEST(SlowServerTest, AConnectionThatWasTakenIsWaitedForBeforeTheNextAttempt) {
  FakeService service;
  const FakeServer server(service);
  const TemporaryFolder folder;
  std::optional<StallingProxy> proxy;
  int asked = 0;
  // The first attempt finds no socket, and from the first pause on there is a silent one. The pauses between
  // four attempts together are too short for that many questions, of which there are 20 in a second.
  const auto go_on = [&] {
    if (!proxy.has_value()) proxy.emplace(server.port(), folder.Path("socket"));
    if (asked == 0) proxy->StallAfter(0);
    if (++asked == 20) proxy->Resume();
    return true;
  };
  Client client("unix:" + folder.Path("socket"));
  const auto sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3}, {.keep_going = go_on});
  EXPECT_TRUE(sum.ok()) << sum.status();
  EXPECT_GE(asked, 20);
}

// The wait for it ends with the deadline. The error says so, and why the last attempt failed.
TEST(SlowServerTest, TheAnswerHasTheLastFailureWhereItStaysSilent) {
  FakeService service;
  const FakeServer server(service);
  const TemporaryFolder folder;
  std::optional<StallingProxy> proxy;
  const auto go_on = [&] {
    if (proxy.has_value()) return true;
    proxy.emplace(server.port(), folder.Path("socket"));
    proxy->StallAfter(0);
    return true;
  };
  Client client("unix:" + folder.Path("socket"));
  const auto sum = client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3},
                                 {.timeout = absl::Milliseconds(2500), .keep_going = go_on});
  EXPECT_TRUE(absl::IsDeadlineExceeded(sum.status())) << sum.status();
  EXPECT_TRUE(absl::StrContains(sum.status().message(), "failed to connect")) << sum.status();
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
