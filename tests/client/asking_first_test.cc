// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls that follow a rejection ask for admission, and send nothing of their array before they have it.
#include <gtest/gtest.h>

#include <atomic>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "client/connections/target_load.h"
#include "client/error.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

const Spec kSumSpec = {.operators = {"sum"}};
constexpr std::size_t kMiB = 1 << 20;
// Long enough for a client that does not wait to have sent something.
constexpr absl::Duration kHeld = absl::Milliseconds(200);

std::string ReasonOf(const absl::Status& status) { return GetErrorInfo(status).value_or(ErrorInfo{}).reason; }

class AskingFirstTest : public testing::Test {
 protected:
  AskingFirstTest() {
    service_.on_start = [this](int call, grpc::ServerContext& context) {
      asked_ += AsksForAdmission(context) ? 1 : 0;
      if (call < refusals_) return Busy(1);
      absl::SleepFor(held_);
      sent_at_admission_ += sent_;
      return grpc::Status::OK;
    };
  }

  CallOptions Options() {
    return {.streams = 1, .on_sent = [this](std::uint64_t bytes) { sent_ += bytes; }};
  }
  void ExpectSum(const absl::StatusOr<Reduction>& reduction) const {
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(reduction->element_count, ones_.size());
  }
  void BeRefused() {
    refusals_ = 1;
    EXPECT_EQ(ReasonOf(client_.Reduce(kSumSpec, ones_, Options()).status()), "TOO_MANY_REDUCTIONS");
    asked_ = 0;
    sent_ = 0;
  }

  std::atomic<int> refusals_ = 0;
  std::atomic<int> asked_ = 0;
  std::atomic<std::uint64_t> sent_ = 0;
  std::atomic<std::uint64_t> sent_at_admission_ = 0;
  absl::Duration held_;
  const std::vector<std::int32_t> ones_ = std::vector<std::int32_t>(kMiB, 1);
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.max_attempts = 1}};
};

TEST_F(AskingFirstTest, NobodyAsksWhoWasNotRefused) {
  ExpectSum(client_.Reduce(kSumSpec, ones_, Options()));
  EXPECT_EQ(asked_, 0);
}

TEST_F(AskingFirstTest, NothingOfTheArrayIsSentBeforeTheAdmission) {
  BeRefused();
  held_ = kHeld;
  ExpectSum(client_.Reduce(kSumSpec, ones_, Options()));
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(sent_at_admission_, 0u);
  EXPECT_EQ(sent_, ones_.size() * sizeof(std::int32_t));
}

TEST_F(AskingFirstTest, WhoIsRefusedAgainHasSentNothing) {
  BeRefused();
  refusals_ = 100;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ReasonOf(client_.Reduce(kSumSpec, ones_, Options()).status()), "TOO_MANY_REDUCTIONS");
  }
  EXPECT_EQ(asked_, 10);
  EXPECT_EQ(sent_, 0u);
}

TEST_F(AskingFirstTest, TheAttemptsOfACallLearnFromEachOther) {
  Client client(server_.target(), {.max_attempts = 4, .backoff = absl::Milliseconds(5)});
  refusals_ = 3;
  ExpectSum(client.Reduce(kSumSpec, ones_, Options()));
  EXPECT_EQ(asked_, 3);
}

TEST_F(AskingFirstTest, SharesOfAnArrayLearnFromEachOther) {
  Client client(server_.target(), {.max_attempts = 4, .backoff = absl::Milliseconds(5)});
  refusals_ = 3;
  const std::vector<std::int32_t> large(16 * kMiB, 1);
  const absl::StatusOr<Reduction> reduction = client.Reduce(kSumSpec, large, {.streams = 3});
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  EXPECT_EQ(reduction->element_count, large.size());
  EXPECT_GE(asked_, 3);
}

// Fills the server with one of the client's calls, and asks for another sum until it has given up.
class OwnPlaceTest : public AskingFirstTest {
 protected:
  static constexpr int kMaxRefusals = 8;

  OwnPlaceTest() {
    service_.on_start = [this](int call, grpc::ServerContext&) {
      if (call == 0) return grpc::Status::OK;
      if (call == kMaxRefusals && !end_.HasBeenNotified()) end_.Notify();
      return done_.HasBeenNotified() ? grpc::Status::OK : Busy(1);
    };
    service_.on_commit = [this](const SeenCall&, grpc::ServerContext&) {
      if (!begun_.HasBeenNotified()) begun_.Notify();
      end_.WaitForNotificationWithTimeout(absl::Seconds(60));
      return grpc::Status::OK;
    };
  }

  absl::Notification begun_;  // the first call has its place
  absl::Notification end_;    // it may go
  absl::Notification done_;   // it has gone
  Client patient_{server_.target(), {.max_attempts = 3, .backoff = absl::Milliseconds(1)}};
};

TEST_F(OwnPlaceTest, AFullServerIsAskedOnWhileTheClientHasPlacesThere) {
  std::thread first([this] {
    ExpectSum(patient_.Reduce(kSumSpec, ones_, {.streams = 1}));
    done_.Notify();
  });
  begun_.WaitForNotification();
  ExpectSum(patient_.Reduce(kSumSpec, ones_, {.streams = 1}));
  EXPECT_GT(service_.started(), kMaxRefusals);
  first.join();
}

// It takes one of the server's places as well.
TEST_F(OwnPlaceTest, NorIsAnArrayAtTheServerWithoutAPlace) {
  std::thread first([this] {
    EXPECT_TRUE(patient_.ReduceReference(kSumSpec, ElementType::kInt32, {.token = "token"}).ok());
    done_.Notify();
  });
  begun_.WaitForNotification();
  ExpectSum(patient_.Reduce(kSumSpec, ones_, {.streams = 1}));
  EXPECT_GT(service_.started(), kMaxRefusals);
  first.join();
}

TEST_F(OwnPlaceTest, PlacesOfOtherClientsAreNotWaitedFor) {
  std::thread first([this] { ExpectSum(client_.Reduce(kSumSpec, ones_, {.streams = 1})); });
  begun_.WaitForNotification();
  EXPECT_EQ(ReasonOf(patient_.Reduce(kSumSpec, ones_, {.streams = 1}).status()), "TOO_MANY_REDUCTIONS");
  EXPECT_EQ(service_.started(), 1 + 3);
  end_.Notify();
  first.join();
}

// Its place becomes free when this thread says so.
TEST_F(OwnPlaceTest, AWritersPlaceIsNotWaitedFor) {
  end_.Notify();
  absl::StatusOr<Writer> writer = patient_.OpenWriter(kSumSpec, ElementType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(ReasonOf(patient_.Reduce(kSumSpec, ones_, {.streams = 1}).status()), "TOO_MANY_REDUCTIONS");
  EXPECT_EQ(service_.started(), 1 + 3);
  EXPECT_TRUE(writer->Commit().ok());
}

TEST_F(AskingFirstTest, AWriterAsksBeforeItsFirstChunk) {
  BeRefused();
  held_ = kHeld;
  absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32, Options());
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(writer->Write(std::as_bytes(std::span(ones_))).ok());
  ExpectSum(writer->Commit());
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(sent_at_admission_, 0u);
}

TEST_F(AskingFirstTest, AnOlderServerIsWaitedForOnce) {
  service_.tells_admissions = false;
  BeRefused();
  absl::Time start = absl::Now();
  ExpectSum(client_.Reduce(kSumSpec, ones_, Options()));
  EXPECT_GE(absl::Now() - start, kLongestWaitForAdmission);
  EXPECT_EQ(asked_, 1);
  ExpectSum(client_.Reduce(kSumSpec, ones_, Options()));
  EXPECT_EQ(asked_, 1);
}

TEST_F(AskingFirstTest, TheWaitEndsWithTheDeadline) {
  BeRefused();
  held_ = absl::Seconds(2);
  CallOptions options = Options();
  options.timeout = kHeld;
  EXPECT_EQ(ReasonOf(client_.Reduce(kSumSpec, ones_, options).status()), "DEADLINE");
  EXPECT_EQ(sent_, 0u);
}

TEST_F(AskingFirstTest, TheWaitCanBeCancelled) {
  BeRefused();
  std::stop_source source;
  absl::Notification asked;
  service_.on_start = [&](int, grpc::ServerContext& context) {
    asked.Notify();
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  std::jthread stopper([&] {
    asked.WaitForNotification();
    source.request_stop();
  });
  CallOptions options = Options();
  options.stop = source.get_token();
  EXPECT_TRUE(absl::IsCancelled(client_.Reduce(kSumSpec, ones_, options).status()));
  EXPECT_EQ(sent_, 0u);
}

}  // namespace
}  // namespace warpfold
