// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One array on many streams and several servers: how it is divided, and what a failure costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/error.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

const Spec kSumSpec = {.operators = {"sum"}};
constexpr std::size_t kMiBElements = (1 << 20) / 4;

std::string ReasonOf(const absl::Status& status) { return GetErrorInfo(status).value_or(ErrorInfo{}).reason; }

std::vector<std::int32_t> Ones(std::size_t mib) { return std::vector<std::int32_t>(mib * kMiBElements, 1); }

void ExpectSumOfOnes(const absl::StatusOr<Reduction>& reduction, std::size_t mib) {
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  EXPECT_EQ(reduction->results.at(0).As<std::int64_t>().value(),
            static_cast<std::int64_t>(mib * kMiBElements));
  EXPECT_EQ(reduction->element_count, mib * kMiBElements);
}

class StreamsTest : public testing::Test {
 protected:
  void Advise(std::uint32_t streams, std::uint64_t min_stripe_bytes, std::uint64_t chunk_bytes) {
    service_.info.mutable_transfer_advice()->set_streams(streams);
    service_.info.mutable_transfer_advice()->set_min_stripe_bytes(min_stripe_bytes);
    service_.info.mutable_transfer_advice()->set_chunk_bytes(chunk_bytes);
  }

  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.max_attempts = 2, .backoff = absl::Milliseconds(5)}};
};

TEST_F(StreamsTest, TheServersAdviceIsTakenAndAskedForOnce) {
  Advise(3, 4 << 20, 256 << 10);
  for (int i = 0; i < 2; ++i) ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(16)), 16);
  EXPECT_EQ(service_.questions(), 1);
  EXPECT_EQ(service_.merges(), 2);
  ASSERT_EQ(service_.calls().size(), 6u);
  EXPECT_GE(service_.calls().front().chunks.size(), 16u / 3 * 4);
}

TEST_F(StreamsTest, AnArrayHasAsManyStreamsAsItsSizeIsWorth) {
  Advise(64, 8 << 20, 1 << 20);
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(4)), 4);
  EXPECT_EQ(service_.questions(), 0);
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(15)), 15);
  EXPECT_EQ(service_.merges(), 0);
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(16)), 16);
  EXPECT_EQ(service_.calls().size(), 1u + 1 + 2);
}

TEST_F(StreamsTest, AServerWithoutAdviceGetsOneStream) {
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(16)), 16);
  EXPECT_EQ(service_.calls().size(), 1u);
  service_.info.Clear();
  Client other(server_.target());
  ExpectSumOfOnes(other.Reduce(kSumSpec, Ones(16)), 16);
  EXPECT_EQ(service_.calls().size(), 2u);
}

TEST_F(StreamsTest, ASlowStreamDoesNotDecide) {
  // The first share is held until all others are done: with one stripe each, the other half would never be
  // done.
  service_.on_commit = [&](const SeenCall& call, grpc::ServerContext&) {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (call.header.first_element() == 0 && service_.calls().size() < 7 && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return call.header.first_element() == 0 && service_.calls().size() < 7
               ? ErrorWithReason(grpc::StatusCode::DEADLINE_EXCEEDED, "the others did not come", "IDLE")
               : grpc::Status::OK;
  };
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(128), {.streams = 2}), 128);
  EXPECT_EQ(service_.calls().size(), 8u);
}

// Of simultaneous streams the longest counts, of consecutive shares the sum; the merge does not count.
TEST_F(StreamsTest, TimingsAreThoseOfTheSlowestStream) {
  service_.on_answer = [](v1::Reduction& reduction) {
    v1::ServerTimings& timings = *reduction.mutable_timings();
    const bool merged = reduction.element_count() == 128 * kMiBElements;
    const std::uint64_t unit = merged ? 1'000'000'000 : reduction.state().first_element() == 0 ? 100 : 1;
    timings.set_queue_ns(unit);
    timings.set_receive_ns(2 * unit);
    timings.set_copy_ns(3 * unit);
    timings.set_kernel_ns(4 * unit);
  };
  const auto reduction = client_.Reduce(kSumSpec, Ones(128), {.streams = 2});
  ExpectSumOfOnes(reduction, 128);
  ASSERT_TRUE(reduction.ok());
  // The stream of the first share had up to seven others.
  const std::int64_t queue_ns = absl::ToInt64Nanoseconds(reduction->timings.queue);
  EXPECT_GE(queue_ns, 100);
  EXPECT_LE(queue_ns, 107);
  EXPECT_EQ(reduction->timings.receive, absl::Nanoseconds(2 * queue_ns));
  EXPECT_EQ(reduction->timings.copy, absl::Nanoseconds(3 * queue_ns));
  EXPECT_EQ(reduction->timings.kernel, absl::Nanoseconds(4 * queue_ns));
}

TEST_F(StreamsTest, AShareThatBrokeIsSentAgainAndNoOther) {
  std::atomic<int> failures = 0;
  service_.on_commit = [&](const SeenCall& call, grpc::ServerContext&) {
    if (call.header.first_element() == 0 || failures++ > 0) return grpc::Status::OK;
    return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "device lost", "DEVICE_LOST");
  };
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(128), {.streams = 2}), 128);
  EXPECT_EQ(service_.started(), 9);
}

TEST_F(StreamsTest, GivesUpWhereNoShareGetsThrough) {
  service_.on_start = [](int, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "device lost", "DEVICE_LOST");
  };
  EXPECT_EQ(ReasonOf(client_.Reduce(kSumSpec, Ones(16), {.streams = 3}).status()), "DEVICE_LOST");
  EXPECT_EQ(service_.started(), 6);
}

TEST_F(StreamsTest, AReasonIsTheServersAndADeadlineWithoutOneIsTheClients) {
  std::optional<grpc::Status> answer;
  service_.on_start = [&](int, grpc::ServerContext&) { return *answer; };
  const auto reason = [&] { return ReasonOf(client_.Reduce(kSumSpec, Ones(1)).status()); };
  answer = ErrorWithReason(grpc::StatusCode::DEADLINE_EXCEEDED, "no bytes came", "IDLE");
  EXPECT_EQ(reason(), "IDLE");
  answer = grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "too late");
  EXPECT_EQ(reason(), "DEADLINE");
  answer = grpc::Status(grpc::StatusCode::INTERNAL, "a proxy's");
  EXPECT_EQ(reason(), "");
}

TEST_F(StreamsTest, AFullServerIsAskedAgain) {
  service_.on_start = [](int call, grpc::ServerContext&) { return call == 0 ? Busy(300) : grpc::Status::OK; };
  const absl::Time start = absl::Now();
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(1)), 1);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(300));
  EXPECT_EQ(service_.started(), 2);
}

TEST_F(StreamsTest, AFullServerIsNotWaitedForBeyondTheDeadline) {
  service_.on_start = [](int, grpc::ServerContext&) { return Busy(20'000); };
  const absl::Time start = absl::Now();
  const absl::Status status = client_.Reduce(kSumSpec, Ones(1), {.timeout = absl::Seconds(10)}).status();
  EXPECT_EQ(ReasonOf(status), "TOO_MANY_REDUCTIONS") << status;
  EXPECT_LT(absl::Now() - start, absl::Seconds(8));
}

TEST_F(StreamsTest, AServerWithFewPlacesGetsAllShares) {
  service_.on_start = [](int call, grpc::ServerContext&) {
    return call % 3 == 1 ? Busy(1) : grpc::Status::OK;
  };
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(128), {.streams = 4}), 128);
}

TEST_F(StreamsTest, AMergeThatIsRefusedThrowsNoShareAway) {
  service_.on_merge = [](int merge) { return merge < 6 ? Busy(1) : grpc::Status::OK; };
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(16), {.streams = 4}), 16);
  EXPECT_EQ(service_.merges(), 7);
  EXPECT_EQ(service_.started(), 4);
}

TEST_F(StreamsTest, AnAnswerToAnotherQuestionIsNotBelieved) {
  const auto expect_mismatch = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("does not match the request"));
  };
  service_.on_answer = [](v1::Reduction& reduction) { reduction.clear_results(); };
  expect_mismatch(client_.Reduce(kSum, std::vector<std::int32_t>{1, 2}).status());
  expect_mismatch(client_.Reduce(kSum, Ones(1)).status());
  expect_mismatch(client_.Reduce(kSum, Ones(1), {.streams = 4}).status());
  absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32);
  expect_mismatch(writer->Commit().status());

  service_.on_answer = [](v1::Reduction& reduction) { reduction.clear_state(); };
  expect_mismatch(client_.Reduce(kSum, Ones(1), {.streams = 4}).status());
  // Changes only what Merge returns.
  service_.on_answer = [](v1::Reduction& reduction) {
    if (!reduction.has_state()) reduction.set_element_count(reduction.element_count() - 1);
  };
  expect_mismatch(client_.Reduce(kSum, Ones(1), {.streams = 4}).status());
  service_.info.Clear();
  expect_mismatch(client_.GetServerInfo().status());
}

class SeveralServersTest : public testing::Test {
 protected:
  FakeService first_;
  FakeService second_;
  FakeServer first_server_{first_};
  FakeServer second_server_{second_};
  Client client_{std::vector<std::string>{first_server_.target(), second_server_.target()},
                 {.max_attempts = 2, .backoff = absl::Milliseconds(5)}};
};

TEST_F(SeveralServersTest, ShareAnArray) {
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(128), {.streams = 4}), 128);
  EXPECT_EQ(first_.calls().size() + second_.calls().size(), 8u);
  EXPECT_GT(first_.calls().size(), 0u);
  EXPECT_GT(second_.calls().size(), 0u);
}

TEST_F(SeveralServersTest, AdviseTogether) {
  for (FakeService* service : {&first_, &second_}) {
    service->info.mutable_transfer_advice()->set_streams(2);
    service->info.mutable_transfer_advice()->set_min_stripe_bytes(4 << 20);
  }
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(16)), 16);
  EXPECT_EQ(first_.calls().size() + second_.calls().size(), 4u);
}

TEST_F(SeveralServersTest, OneThatDrainsIsLeftOut) {
  first_.on_start = [](int, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING");
  };
  first_.on_merge = [](int) {
    return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING");
  };
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(client_.Reduce(kSum, std::vector<std::int32_t>{1, 2}).ok());
  }
  EXPECT_LE(first_.started(), 2);
  ExpectSumOfOnes(client_.Reduce(kSumSpec, Ones(128), {.streams = 4}), 128);
  EXPECT_TRUE(first_.calls().empty());
}

TEST_F(SeveralServersTest, OneThatIsNotThereIsLeftOut) {
  auto gone = std::make_unique<FakeServer>(first_);
  const std::string gone_target = gone->target();
  gone.reset();
  Client client(std::vector<std::string>{gone_target, second_server_.target()},
                {.max_attempts = 2, .backoff = absl::Milliseconds(5)});
  second_.info.mutable_transfer_advice()->set_streams(2);
  ExpectSumOfOnes(client.Reduce(kSumSpec, Ones(16)), 16);
  EXPECT_EQ(second_.calls().size(), 2u);
  EXPECT_TRUE(client.GetServerInfo().ok());
  EXPECT_TRUE(client.IsServing().value());
}

}  // namespace
}  // namespace warpfold
