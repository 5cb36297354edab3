// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One name with two addresses. The server at the first drains but can still be reached, like one behind a
// proxy: a new connection leads to it again.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/calls/retry.h"
#include "client/client.h"
#include "client/connections/status.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

const std::vector<std::int32_t> kValues = {1, 2, 3};

class DrainingTest : public testing::Test {
 protected:
  // Rejects all calls, and records when they came.
  void DrainTheFirst() {
    first_.on_start = [this](int, grpc::ServerContext&) {
      refused_at_.push_back(absl::Now());
      if (refused_at_.size() == 2) refused_twice_.Notify();
      return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING");
    };
  }

  FakeService first_;
  FakeService second_;
  std::unique_ptr<FakeServer> leaving_ = std::make_unique<FakeServer>(first_);
  const FakeServer staying_{second_};
  const std::string name_ = "ipv4:" + leaving_->target() + "," + staying_.target();
  std::vector<absl::Time> refused_at_;
  absl::Notification refused_twice_;
};

// Data that was written to it cannot be sent again, but nothing has been written.
TEST_F(DrainingTest, AWriterOpensAtAServerThatStays) {
  DrainTheFirst();
  Client client({leaving_->target(), staying_.target()}, {.backoff = absl::Milliseconds(1)});
  for (int i = 1; i <= 4; ++i) {
    absl::StatusOr<Writer> writer = client.OpenWriter({.operators = {"sum"}}, ElementType::kInt32);
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE(writer->Write(std::vector<std::byte>(400)).ok());
    const absl::StatusOr<Reduction> reduction = writer->Commit();
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(reduction->element_count, 100u);
    EXPECT_EQ(second_.started(), i);
  }
  EXPECT_FALSE(refused_at_.empty());
}

// Previously, all attempts were over within milliseconds, since each connection was made at once.
TEST_F(DrainingTest, TheCallOutlastsAnAddressThatIsClosedLate) {
  DrainTheFirst();
  std::jthread end([this] {
    refused_twice_.WaitForNotification();
    absl::SleepFor(absl::Milliseconds(100));
    leaving_.reset();
  });
  Client client(name_, {.backoff = absl::Seconds(1)});
  const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, kValues);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 6);
  EXPECT_EQ(refused_at_.size(), 2u);
  EXPECT_EQ(second_.started(), 1);
}

TEST_F(DrainingTest, AnotherConnectionIsTriedAtOnceAndThenAfterPauses) {
  DrainTheFirst();
  const absl::Duration backoff = absl::Milliseconds(200);
  Client client(name_, {.max_attempts = 4, .backoff = backoff});
  EXPECT_TRUE(absl::IsUnavailable(client.Reduce(kSum, kValues).status()));
  ASSERT_EQ(refused_at_.size(), 4u);
  constexpr double kLeast = 0.8;  // of a pause, whose length varies
  EXPECT_GE(refused_at_[2] - refused_at_[1], 2 * kLeast * backoff);
  EXPECT_GE(refused_at_[3] - refused_at_[2], 4 * kLeast * backoff);
}

// Each may be behind a proxy that goes on accepting connections.
TEST_F(DrainingTest, TwoNamesThatBothDrainAreTriedAgainAfterPauses) {
  DrainTheFirst();
  second_.on_start = first_.on_start;
  const absl::Duration backoff = absl::Milliseconds(200);
  Client client(std::vector<std::string>{leaving_->target(), staying_.target()},
                {.max_attempts = 4, .backoff = backoff});
  EXPECT_TRUE(absl::IsUnavailable(client.Reduce(kSum, kValues).status()));
  ASSERT_EQ(refused_at_.size(), 4u);
  constexpr double kLeast = 0.8;  // of a pause, whose length varies
  EXPECT_LT(refused_at_[1] - refused_at_[0], kLeast * backoff) << "the other one may serve";
  EXPECT_GE(refused_at_[2] - refused_at_[1], 2 * kLeast * backoff);
  EXPECT_GE(refused_at_[3] - refused_at_[2], 4 * kLeast * backoff);
}

// For example between the shares of an array, whose server may be restarted more than once.
TEST_F(DrainingTest, ASuccessBetweenTwoDrainsCounts) {
  const ClientOptions options = {.backoff = absl::Minutes(10)};
  Targets targets({name_}, options);
  RetryLoop retry(targets, 0, options, absl::InfiniteFuture(), {});
  const absl::Status draining = MakeError(absl::StatusCode::kUnavailable, "DRAINING", "draining");
  const absl::Time start = absl::Now();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(retry.Again(draining, {}));
    retry.Succeeded();
  }
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST_F(DrainingTest, APauseCanBeCancelled) {
  DrainTheFirst();
  std::stop_source source;
  std::jthread canceller([&] {
    refused_twice_.WaitForNotification();
    source.request_stop();
  });
  Client client(name_, {.backoff = absl::Minutes(10)});
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsCancelled(client.Reduce(kSum, kValues, {.stop = source.get_token()}).status()));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));

  std::atomic<bool> goes_on = true;
  std::jthread asked([&] {
    absl::SleepFor(absl::Milliseconds(300));
    goes_on = false;
  });
  const CallOptions options = {.keep_going = [&goes_on] { return goes_on.load(); }};
  EXPECT_TRUE(absl::IsCancelled(client.Reduce(kSum, kValues, options).status()));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

}  // namespace
}  // namespace warpfold
