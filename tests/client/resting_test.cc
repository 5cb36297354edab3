// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A call that follows a rejection does not come earlier than the server said, even if it is not a retry.
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

constexpr int kDelayMs = 400;
constexpr absl::Duration kDelay = absl::Milliseconds(kDelayMs);

class RestingTest : public testing::Test {
 protected:
  RestingTest() {
    service_.on_start = [](int call, grpc::ServerContext&) {
      return call == 0 ? Busy(kDelayMs) : grpc::Status::OK;
    };
  }

  absl::Status Call(const CallOptions& options = {}) { return client_.Reduce(kSum, few_, options).status(); }
  void BeRefused() {
    EXPECT_TRUE(absl::IsResourceExhausted(Call()));
    refused_ = absl::Now();
  }

  const std::vector<std::int32_t> few_ = {1, 2, 3};
  absl::Time refused_;
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.max_attempts = 1}};
};

TEST_F(RestingTest, TheNextCallComesWhenTheServerSaid) {
  BeRefused();
  EXPECT_TRUE(Call().ok());
  EXPECT_GE(absl::Now() - refused_, kDelay - absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  EXPECT_TRUE(Call().ok());
  EXPECT_LT(absl::Now() - start, kDelay);
}

TEST_F(RestingTest, ACallThatCannotWaitAsksAtOnce) {
  BeRefused();
  EXPECT_TRUE(Call({.timeout = kDelay / 2}).ok());
  EXPECT_EQ(service_.started(), 2);
}

TEST_F(RestingTest, TheWaitCanBeInterrupted) {
  BeRefused();
  std::stop_source source;
  std::jthread stopper([&] {
    absl::SleepFor(kDelay / 10);
    source.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(Call({.stop = source.get_token()})));
  EXPECT_TRUE(absl::IsCancelled(Call({.keep_going = [] { return false; }})));
  EXPECT_LT(absl::Now() - refused_, kDelay);
}

TEST_F(RestingTest, NobodyWaitsForTheRefusalOfAnother) {
  absl::Notification begun;
  absl::Notification refused;
  service_.on_start = [&](int call, grpc::ServerContext&) {
    if (call == 1) return Busy(kDelayMs);
    if (call > 1) return grpc::Status(grpc::Status::OK);
    begun.Notify();
    refused.WaitForNotification();
    return grpc::Status(grpc::Status::OK);
  };
  std::jthread served([&] {
    EXPECT_TRUE(Call().ok());
    EXPECT_TRUE(Call().ok());
    EXPECT_LT(absl::Now() - refused_, kDelay - absl::Milliseconds(50));
  });
  begun.WaitForNotification();
  BeRefused();
  refused.Notify();
}

}  // namespace
}  // namespace warpfold
