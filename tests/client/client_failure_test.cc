// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The client when things go wrong: errors, deadlines, cancellation, retries, dead connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/error.h"
#include "tests/client/fake_service.h"
#include "warpfold/v1/arrays.grpc.pb.h"

namespace warpfold {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

const Spec kSumSpec = {.operators = {"sum"}};
constexpr std::size_t kLarge = 16 << 20;  // elements

std::string ReasonOf(const absl::Status& status) { return GetErrorInfo(status).value_or(ErrorInfo{}).reason; }

// Holds a call until its client is gone.
grpc::Status HangUntilCancelled(const SeenCall&, grpc::ServerContext& context) {
  while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  return grpc::Status::CANCELLED;
}

class ClientFailureTest : public testing::Test {
 protected:
  // Outlives the server: handlers stop it.
  std::stop_source source_;
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 4, .backoff = absl::Milliseconds(5)}};
  const std::vector<std::int32_t> large_ = std::vector<std::int32_t>(kLarge, 1);
};

// These tests run on one stream and on several.
class ClientFailureOnStreamsTest : public ClientFailureTest, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Streams, ClientFailureOnStreamsTest, testing::Values(1, 3));

TEST_P(ClientFailureOnStreamsTest, ErrorIsTheServersOwn) {
  service_.on_chunk = [](const SeenCall&, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large", "ARRAY_TOO_LARGE");
  };
  const absl::Status status = client_.Reduce(kSumSpec, large_, {.streams = GetParam()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "too large");
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "ARRAY_TOO_LARGE");
  EXPECT_EQ(info->domain, "warpfold");
  EXPECT_THAT(info->metadata, UnorderedElementsAre(Pair("field", "header")));
}

TEST_F(ClientFailureTest, WriterReportsTheServersErrorFromWriteAndCommit) {
  service_.on_chunk = [](const SeenCall&, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::DATA_LOSS, "bad checksum", "CHECKSUM_MISMATCH");
  };
  absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32);
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> piece(1 << 20);
  absl::Status status;
  while (status.ok()) status = writer->Write(piece);
  EXPECT_EQ(ReasonOf(status), "CHECKSUM_MISMATCH");
  EXPECT_EQ(ReasonOf(writer->Commit().status()), "CHECKSUM_MISMATCH");
}

TEST_F(ClientFailureTest, WriterOpensOnceItIsAdmitted) {
  service_.on_start = [](int call, grpc::ServerContext&) {
    return call < 2 ? ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "TOO_MANY_REDUCTIONS")
                    : grpc::Status::OK;
  };
  Client client(server_.target(), {.backoff = absl::Milliseconds(1)});
  absl::StatusOr<Writer> writer = client.OpenWriter(kSumSpec, ElementType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(service_.started(), 3);
  EXPECT_TRUE(writer->Write(std::vector<std::byte>(400)).ok());
  const absl::StatusOr<Reduction> reduction = writer->Commit();
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  EXPECT_EQ(reduction->element_count, 100u);
}

TEST_F(ClientFailureTest, WriterLearnsOfARefusalWithoutWriting) {
  service_.on_start = [](int, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::INVALID_ARGUMENT, "no such type", "UNSUPPORTED_TYPE");
  };
  EXPECT_EQ(ReasonOf(client_.OpenWriter(kSumSpec, ElementType::kInt32).status()), "UNSUPPORTED_TYPE");
}

TEST_F(ClientFailureTest, WriterLearnsOfAnErrorWithoutWriting) {
  service_.on_chunk = [](const SeenCall&, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "too long", "ARRAY_TOO_LARGE");
  };
  absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Write(std::vector<std::byte>(4)).ok());
  ASSERT_TRUE(writer->Flush().ok());
  ASSERT_TRUE(writer->AwaitEnd(absl::Minutes(1)));
  EXPECT_EQ(ReasonOf(writer->Write(std::vector<std::byte>(4))), "ARRAY_TOO_LARGE");
  EXPECT_EQ(ReasonOf(writer->Flush()), "ARRAY_TOO_LARGE");
  EXPECT_EQ(ReasonOf(writer->Commit().status()), "ARRAY_TOO_LARGE");
}

TEST_F(ClientFailureTest, WriterLearnsOfItsDeadlineWithoutWriting) {
  absl::StatusOr<Writer> writer =
      client_.OpenWriter(kSumSpec, ElementType::kInt32, {.timeout = absl::Milliseconds(50)});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->AwaitEnd(absl::Minutes(1)));
  EXPECT_EQ(ReasonOf(writer->Commit().status()), "DEADLINE");
}

TEST_P(ClientFailureOnStreamsTest, DeadlineEndsACallThatHangs) {
  service_.on_chunk = HangUntilCancelled;
  const CallOptions options = {.timeout = absl::Milliseconds(100), .streams = GetParam()};
  const absl::Status status = client_.Reduce(kSumSpec, large_, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(ReasonOf(status), "DEADLINE");
}

TEST_F(ClientFailureTest, ACallHasADeadlineThatItDoesNotGive) {
  std::chrono::system_clock::time_point deadline;
  service_.on_start = [&deadline](int, grpc::ServerContext& context) {
    deadline = context.deadline();
    return grpc::Status::OK;
  };
  EXPECT_TRUE(client_.Reduce(kSum, std::vector<std::int32_t>{1, 2}).ok());
  const absl::Duration left = absl::FromChrono(deadline) - absl::Now();
  // gRPC sends the remaining time in steps of 10 s if it is this long, and rounds up: also 3,700 s and the
  // microsecond by which its clocks may differ.
  EXPECT_TRUE(left > absl::Minutes(60) && left <= absl::Seconds(3710)) << left;
}

TEST_P(ClientFailureOnStreamsTest, AnotherThreadCancels) {
  service_.on_chunk = [&](const SeenCall& call, grpc::ServerContext& context) {
    source_.request_stop();
    return HangUntilCancelled(call, context);
  };
  const CallOptions options = {.stop = source_.get_token(), .streams = GetParam()};
  const absl::Status status = client_.Reduce(kSumSpec, large_, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

TEST_F(ClientFailureTest, StoppedBeforeItStarts) {
  source_.request_stop();
  EXPECT_TRUE(absl::IsCancelled(client_.Reduce(kSumSpec, large_, {.stop = source_.get_token()}).status()));
}

TEST_F(ClientFailureTest, OneFailingStripeEndsTheOthers) {
  service_.on_chunk = [](const SeenCall& call, grpc::ServerContext& context) {
    if (call.header.first_element() == 0) {
      return ErrorWithReason(grpc::StatusCode::DATA_LOSS, "bad checksum", "CHECKSUM_MISMATCH");
    }
    return HangUntilCancelled(call, context);
  };
  const absl::Status status = client_.Reduce(kSumSpec, large_, {.streams = 4}).status();
  EXPECT_EQ(ReasonOf(status), "CHECKSUM_MISMATCH") << status;
}

TEST_F(ClientFailureTest, UnavailableIsRetriedWhileNothingWasTaken) {
  service_.on_start = [](int call, grpc::ServerContext&) {
    return call < 2 ? ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING")
                    : grpc::Status::OK;
  };
  const absl::StatusOr<std::int64_t> sum = client_.Reduce(kSum, large_);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, static_cast<std::int64_t>(kLarge));
  EXPECT_EQ(service_.started(), 3);
}

TEST_F(ClientFailureTest, GivesUpAfterTheLastAttempt) {
  service_.on_start = [](int, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING");
  };
  const absl::Status status = client_.Reduce(kSum, std::vector<std::int32_t>{1, 2}).status();
  EXPECT_EQ(ReasonOf(status), "DRAINING");
  EXPECT_EQ(service_.started(), 4);
}

TEST_F(ClientFailureTest, AnArrayIsSentAgainAfterItsServerFailed) {
  std::atomic<bool> has_failed = false;
  service_.on_chunk = [&](const SeenCall& call, grpc::ServerContext&) {
    if (call.chunks.size() < 4 || has_failed.exchange(true)) return grpc::Status::OK;
    return ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "device lost", "DEVICE_LOST");
  };
  const absl::StatusOr<std::int64_t> sum = client_.Reduce(kSum, large_, {.streams = 1});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, static_cast<std::int64_t>(kLarge));
  EXPECT_EQ(service_.started(), 2);
}

// An array of no elements has a commit, and no data.
TEST_F(ClientFailureTest, AnArrayWithoutDataIsRetriedAfterItsCommit) {
  int commits = 0;
  service_.on_commit = [&](const SeenCall&, grpc::ServerContext&) {
    return ++commits == 1 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "once") : grpc::Status::OK;
  };
  const absl::Status status =
      client_.Reduce(kSumSpec, std::vector<std::int32_t>(), {.checksum = true}).status();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(commits, 2);
}

TEST_F(ClientFailureTest, OtherErrorsAreNotRetried) {
  service_.on_start = [](int, grpc::ServerContext&) {
    return ErrorWithReason(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large", "ARRAY_TOO_LARGE");
  };
  EXPECT_EQ(ReasonOf(client_.Reduce(kSumSpec, large_).status()), "ARRAY_TOO_LARGE");
  EXPECT_EQ(service_.started(), 1);
}

TEST(ClientReconnectTest, FindsAServerThatCameBack) {
  FakeService service;
  auto server = std::make_unique<FakeServer>(service);
  const int port = server->port();
  Client client(server->target(), {.max_attempts = 20, .backoff = absl::Milliseconds(20)});
  const std::vector<std::int32_t> values = {1, 2, 3};
  EXPECT_TRUE(client.Reduce(kSum, values).ok());

  server.reset();
  Client impatient("127.0.0.1:" + std::to_string(port), {.max_attempts = 1});
  EXPECT_TRUE(absl::IsUnavailable(impatient.Reduce(kSum, values).status()));

  server = std::make_unique<FakeServer>(service, port);
  const absl::StatusOr<std::int64_t> sum = client.Reduce(kSum, values);
  EXPECT_TRUE(sum.ok()) << sum.status();
}

TEST(ClientReconnectTest, CancelledWhileItWaitsForAServer) {
  FakeService service;
  const int port = FakeServer(service).port();
  Client client("127.0.0.1:" + std::to_string(port), {.backoff = absl::Minutes(10)});
  std::stop_source source;
  std::jthread canceller([&] {
    absl::SleepFor(absl::Milliseconds(200));
    source.request_stop();
  });
  const absl::Time start = absl::Now();
  const absl::Status status =
      client.Reduce(kSum, std::vector<std::int32_t>{1, 2}, {.stop = source.get_token()}).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

// Deletes the array at its first call, but the response to that is lost however often it is sent.
class FakeArrays final : public v1::ArrayService::Service {
 public:
  explicit FakeArrays(int lost_answers) : lost_answers_(lost_answers) {}

  grpc::Status DeleteArray(grpc::ServerContext*, const v1::DeleteArrayRequest*,
                           v1::DeleteArrayResponse*) override {
    if (calls_++ < lost_answers_) return {grpc::StatusCode::UNAVAILABLE, "connection reset"};
    return ErrorWithReason(grpc::StatusCode::NOT_FOUND, "no such array", "UNKNOWN_MEMORY");
  }

  // Keeps the array, but the response is lost.
  grpc::Status PutArray(grpc::ServerContext*, grpc::ServerReader<v1::PutArrayRequest>* reader,
                        v1::PutArrayResponse*) override {
    v1::PutArrayRequest request;
    while (reader->Read(&request)) continue;
    ++calls_;
    return {grpc::StatusCode::UNAVAILABLE, "connection reset"};
  }
  int calls() const { return calls_; }

 private:
  const int lost_answers_;
  std::atomic<int> calls_ = 0;
};

TEST(ClientDeleteTest, AnArrayThatIsGoneAfterALostAnswerWasDeleted) {
  for (const int lost_answers : {0, 1, 2, 4}) {
    FakeArrays service(lost_answers);
    const FakeServer server(service);
    Client client(server.target(), {.backoff = absl::Milliseconds(5)});
    const absl::Status status = client.DeleteArray("token");
    if (lost_answers == 0) {
      EXPECT_EQ(ReasonOf(status), "UNKNOWN_MEMORY");
    } else if (lost_answers < 4) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;  // nobody knows
    }
  }
}

// It would be kept once more, and nobody would know of the first. This holds even if it has no elements.
TEST(ClientPutTest, AnArrayThatMayBeKeptIsNotSentAgain) {
  for (const std::size_t count : {0, 1000}) {
    FakeArrays service(0);
    const FakeServer server(service);
    Client client(server.target(), {.backoff = absl::Milliseconds(5)});
    EXPECT_TRUE(absl::IsUnavailable(client.Put(std::vector<std::int32_t>(count)).status()));
    EXPECT_EQ(service.calls(), 1) << count;
  }
}

// gRPC's shutdown waits ten seconds for a poller that a blocked write may leave behind, if it runs when the
// last client goes: about one time in twelve after streams that broke off.
TEST(ClientLifeTest, EndsPromptlyAfterStreamsThatBroke) {
  const std::vector<std::int32_t> values(kLarge, 1);
  for (int i = 0; i < 40; ++i) {
    const absl::Time start = absl::Now();
    {
      FakeService service;
      service.on_chunk = [](const SeenCall& call, grpc::ServerContext& context) {
        if (call.header.first_element() != 0) return HangUntilCancelled(call, context);
        return ErrorWithReason(grpc::StatusCode::DATA_LOSS, "bad checksum", "CHECKSUM_MISMATCH");
      };
      const FakeServer server(service);
      Client client(server.target(), {.connections = 4});
      EXPECT_FALSE(client.Reduce(kSum, values, {.streams = 4}).ok());
    }
    ASSERT_LT(absl::Now() - start, absl::Seconds(8)) << "run " << i;
  }
}

}  // namespace
}  // namespace warpfold
