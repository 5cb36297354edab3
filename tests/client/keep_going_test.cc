// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// CallOptions::keep_going: when and on which thread it is called, and that a false ends a call wherever it
// waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/client/fake_service.h"
#include "tests/client/full_listener.h"

namespace warpfold {
namespace {

const Spec kSumSpec = {.operators = {"sum"}};

grpc::Status HangUntilCancelled(const SeenCall&, grpc::ServerContext& context) {
  while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  return grpc::Status::CANCELLED;
}

class KeepGoingTest : public testing::Test {
 protected:
  // Returns false from the third time on; fails on any thread but the test's.
  CallOptions ThreeQuestions(int streams = 1) {
    const auto keep_going = [this, caller = std::this_thread::get_id()] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      return ++questions_ < 3;
    };
    return {.keep_going = keep_going, .streams = streams};
  }

  void ExpectEnded(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_GE(questions_, 3);
  }

  int questions_ = 0;
  std::atomic<bool> over_ = false;  // read by the service until the server has ended
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 4, .backoff = absl::Milliseconds(5)}};
  const std::vector<std::int32_t> large_ = std::vector<std::int32_t>(16 << 20, 1);
};

TEST_F(KeepGoingTest, EndsAStreamThatHangs) {
  service_.on_chunk = HangUntilCancelled;
  ExpectEnded(client_.Reduce(kSumSpec, large_, ThreeQuestions()).status());
}

TEST_F(KeepGoingTest, EndsSeveralStreams) {
  service_.on_chunk = HangUntilCancelled;
  ExpectEnded(client_.Reduce(kSumSpec, large_, ThreeQuestions(3)).status());
}

TEST_F(KeepGoingTest, EndsASmallCall) {
  service_.on_start = [](int, grpc::ServerContext& context) { return HangUntilCancelled({}, context); };
  ExpectEnded(client_.Reduce(kSumSpec, std::vector<std::int32_t>{1, 2}, ThreeQuestions()).status());
}

TEST_F(KeepGoingTest, EndsAMerge) {
  service_.on_merge = [this](int) {
    while (!over_) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::OK;
  };
  ExpectEnded(client_.Reduce(kSumSpec, large_, ThreeQuestions(3)).status());
  over_ = true;
}

TEST_F(KeepGoingTest, EndsAWriter) {
  service_.on_commit = HangUntilCancelled;
  absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32, ThreeQuestions());
  ASSERT_TRUE(writer.ok());
  ExpectEnded(writer->Commit().status());
}

TEST_F(KeepGoingTest, EndsAWritersWait) {
  absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32, ThreeQuestions());
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->AwaitEnd(absl::InfiniteDuration()));
  ExpectEnded(writer->Commit().status());
}

// A flag that a signal's handler has set, and that is taken once.
CallOptions OneFalse(int& questions) {
  return {.keep_going = [&questions] { return ++questions != 1; }};
}

TEST_F(KeepGoingTest, AFalseDuringTheQuestionForAdviceStays) {
  const FullListener silent;
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{silent.target()}, {silent.target(), server_.target()}}) {
    Client client(targets);
    int questions = 0;
    const absl::Status status = client.Reduce(kSumSpec, large_, OneFalse(questions)).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(questions, 1);
  }
  EXPECT_EQ(service_.started(), 0);
}

TEST(KeepGoingWithoutAServerTest, EndsTheQuestionWhetherItServes) {
  FakeService service;
  const std::string target = "127.0.0.1:" + std::to_string(FakeServer(service).port());
  for (const std::vector<std::string>& targets : {std::vector<std::string>{target}, {target, target}}) {
    Client client(targets);
    int questions = 0;
    const absl::Status status = client.IsServing(OneFalse(questions)).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(questions, 1);
  }
}

TEST_F(KeepGoingTest, TrueChangesNothing) {
  int questions = 0;
  service_.on_commit = [](const SeenCall&, grpc::ServerContext&) {
    absl::SleepFor(absl::Milliseconds(200));
    return grpc::Status::OK;
  };
  for (const int streams : {1, 3}) {
    const CallOptions options = {.keep_going = [&] { return ++questions > 0; }, .streams = streams};
    const auto reduction = client_.Reduce(kSumSpec, large_, options);
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_GT(questions, 0);
  }
}

TEST(KeepGoingWithoutAServerTest, EndsAPause) {
  FakeService service;
  const std::string target = "127.0.0.1:" + std::to_string(FakeServer(service).port());
  Client client(target, {.backoff = absl::Minutes(10)});
  int questions = 0;
  const CallOptions options = {.keep_going = [&] { return ++questions < 3; }};
  EXPECT_TRUE(absl::IsCancelled(client.Reduce(kSum, std::vector<std::int32_t>{1, 2}, options).status()));
  EXPECT_GE(questions, 3);
}

}  // namespace
}  // namespace warpfold
