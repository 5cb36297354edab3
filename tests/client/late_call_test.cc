// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls whose time is over before the client looks at them: they end, and their neighbours on the connection
// do not notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "client/connections/connection.h"
#include "client/error.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

const Spec kSumSpec = {.operators = {"sum"}};

class LateCallTest : public testing::Test {
 protected:
  Writer Open(absl::Duration timeout) {
    absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32, {.timeout = timeout});
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  // A call that has sent a part of its array, and so cannot be tried again.
  Writer OpenNeighbour() {
    Writer writer = Open(absl::Minutes(1));
    EXPECT_TRUE(writer.Write(std::vector<std::byte>(4096)).ok());
    EXPECT_TRUE(writer.Flush().ok());
    return writer;
  }

  static void ExpectWhole(Writer& neighbour) {
    const absl::StatusOr<Reduction> reduction = neighbour.Commit();
    EXPECT_TRUE(reduction.ok()) << reduction.status();
  }

  // Sleeps until the end of a call with a short timeout is so long ago that a call that waited would have
  // broken off.
  static void SleepUntilLate() { absl::SleepFor(kTakenWithin + absl::Milliseconds(500)); }

  FakeService service_;
  const FakeServer server_{service_};
  Client client_{server_.target(), {.connections = 1}};
};

TEST_F(LateCallTest, AWriterThatCommitsLateSparesItsNeighbour) {
  Writer late = Open(absl::Milliseconds(100));
  Writer neighbour = OpenNeighbour();
  SleepUntilLate();
  const absl::Status status = late.Commit().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  ExpectWhole(neighbour);
}

TEST_F(LateCallTest, AWriterThatGoesLateSparesItsNeighbour) {
  std::optional<Writer> late = Open(absl::Milliseconds(100));
  Writer neighbour = OpenNeighbour();
  SleepUntilLate();
  late.reset();
  ExpectWhole(neighbour);
}

TEST_F(LateCallTest, ASlowGeneratorSparesItsNeighbour) {
  Writer neighbour = OpenNeighbour();
  const Generator slow = [](std::uint64_t, std::span<std::byte> buffer) {
    std::fill(buffer.begin(), buffer.end(), std::byte{0});
    SleepUntilLate();
  };
  const absl::Status status =
      client_
          .ReduceGenerated(kSumSpec, ElementType::kInt32, 1 << 20, slow, {.timeout = absl::Milliseconds(100)})
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  ExpectWhole(neighbour);
}

TEST_F(LateCallTest, AWriterOfLittleAtATimeEndsAtItsDeadline) {
  const absl::Time begin = absl::Now();
  Writer late = Open(absl::Milliseconds(50));
  absl::Status status;
  while (status.ok()) {
    // So few bytes are only collected, for half a second.
    status = late.Write(std::vector<std::byte>(4));
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo{}).reason, "DEADLINE") << status;
  EXPECT_LT(absl::Now() - begin, absl::Milliseconds(400));
}

// Times that have passed before a call begins, including those that gRPC takes for "never".
class CallThatBeginsLateTest : public LateCallTest, public testing::WithParamInterface<absl::Duration> {
 protected:
  // Nothing is sent if there is a connection, either.
  CallThatBeginsLateTest() { EXPECT_TRUE(client_.Reduce(kSum, std::vector<std::int32_t>{1}).ok()); }
  ~CallThatBeginsLateTest() override {
    EXPECT_EQ(service_.started(), started_);
    EXPECT_EQ(service_.questions(), 0);
    EXPECT_EQ(service_.merges(), 0);
  }

  static void ExpectLate(const absl::Status& status) {
    EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo{}).reason, "DEADLINE") << status;
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }

  const CallOptions options_ = {.timeout = GetParam()};
  int started_ = 1;  // by the test
};
INSTANTIATE_TEST_SUITE_P(Timeouts, CallThatBeginsLateTest,
                         testing::Values(absl::ZeroDuration(), -absl::Seconds(1),
                                         -absl::Hours(24 * 365 * 100), -absl::InfiniteDuration(),
                                         absl::Seconds(-std::numeric_limits<double>::quiet_NaN())));

TEST_P(CallThatBeginsLateTest, CallsWithAnArray) {
  const std::vector<std::int32_t> large(4 << 20, 1);
  ExpectLate(client_.Reduce(kSum, std::vector<std::int32_t>{1}, options_).status());
  ExpectLate(client_.Reduce(kSum, large, options_).status());
  ExpectLate(client_.ReduceSegments(kSumSpec, large, {.length = 1}, options_).status());
  ExpectLate(client_.Put(large, {}, options_).status());
}

TEST_P(CallThatBeginsLateTest, CallsWithoutAnArray) {
  const ArrayReference reference = {.token = "token", .byte_offset = 0, .element_count = 1};
  ExpectLate(client_.ReduceReference(kSumSpec, ElementType::kInt32, reference, options_).status());
  ExpectLate(client_.GetArray("token", options_).status());
  ExpectLate(client_.ListArrays("", options_).status());
  ExpectLate(client_.DeleteArray("token", options_));
  ExpectLate(client_.GetServerInfo(options_).status());
  ExpectLate(client_.IsServing(options_).status());
}

TEST_P(CallThatBeginsLateTest, AWriter) {
  ExpectLate(client_.OpenWriter(kSumSpec, ElementType::kInt32, options_).status());
}

TEST_P(CallThatBeginsLateTest, AWaitForAnEndLooksOnce) {
  Writer writer = Open(absl::Minutes(1));
  EXPECT_FALSE(writer.AwaitEnd(GetParam()));
  EXPECT_TRUE(writer.Commit().ok());
  started_ = 2;
}

TEST(CallThatBeginsLateToAnyTest, DoesNotSpeakAgainstItsTarget) {
  FakeService first, second;
  const FakeServer server(first), other(second);
  Client client({server.target(), other.target()});
  const std::vector<std::int32_t> large(4 << 20, 1);
  for (const absl::Duration timeout : {absl::ZeroDuration(), absl::ZeroDuration(), absl::Minutes(1)}) {
    EXPECT_EQ(client.Reduce(kSum, large, {.timeout = timeout}).ok(), timeout > absl::ZeroDuration());
  }
  EXPECT_TRUE(client.Reduce(kSum, large).ok());
  EXPECT_EQ(first.questions(), 1);
  EXPECT_EQ(second.questions(), 1);
}

}  // namespace
}  // namespace warpfold
