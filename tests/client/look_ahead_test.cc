// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each stream of an array sends its next share while the one before has had no response.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/error.h"
#include "tests/client/fake_service.h"

namespace warpfold {
namespace {

const Spec kSumSpec = {.operators = {"sum"}};
constexpr std::size_t kMiBElements = (1 << 20) / 4;
constexpr std::size_t kShareElements = 16 * kMiBElements;
constexpr std::size_t kShares = 8;  // of an array of this many times 16 MiB, on two streams

std::string ReasonOf(const absl::Status& status) { return GetErrorInfo(status).value_or(ErrorInfo{}).reason; }

// Waits a minute at most; returns whether the condition holds.
bool Await(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (!condition() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  return condition();
}

class LookAheadTest : public testing::Test {
 protected:
  LookAheadTest() : values_(kShares * kShareElements) {
    std::iota(values_.begin(), values_.end(), 0);
    for (const std::int32_t value : values_) sum_ += value;
  }

  absl::StatusOr<Reduction> Reduce(CallOptions options = {}) {
    options.streams = 2;
    return client_.Reduce(kSumSpec, values_, options);
  }

  void ExpectSum(const absl::StatusOr<Reduction>& reduction) const {
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    EXPECT_EQ(reduction->results.at(0).As<std::int64_t>().value(), sum_);
  }

  // Waits until two shares of both streams have begun.
  bool AwaitBothAhead() {
    return Await([this] { return service_.started() >= 4; });
  }

  std::vector<std::int32_t> values_;
  std::int64_t sum_ = 0;
  // The server uses these after the client's call has ended.
  std::stop_source stop_;
  std::atomic<bool> failed_ = false;
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.max_attempts = 2, .backoff = absl::Milliseconds(5)}};
};

TEST_F(LookAheadTest, TheNextShareBeginsBeforeTheAnswerOnTheSameConnection) {
  absl::Mutex mutex;
  std::map<std::string, int> under_way;
  int most = 0;
  service_.on_start = [&](int, grpc::ServerContext& context) {
    absl::MutexLock lock(&mutex);
    most = std::max(most, ++under_way[context.peer()]);
    return grpc::Status::OK;
  };
  service_.on_commit = [&](const SeenCall&, grpc::ServerContext& context) {
    const bool ahead = AwaitBothAhead();
    absl::MutexLock lock(&mutex);
    --under_way[context.peer()];
    return ahead ? grpc::Status::OK : ErrorWithReason(grpc::StatusCode::INTERNAL, "none came", "NONE");
  };
  ExpectSum(Reduce());
  EXPECT_EQ(under_way.size(), 2u);
  EXPECT_EQ(most, 2);
  EXPECT_EQ(service_.started(), static_cast<int>(kShares));
}

TEST_F(LookAheadTest, AFailureIsSeenWhileTheNextShareIsSent) {
  std::atomic<int> sent_after = 0;
  service_.on_commit = [&](const SeenCall& call, grpc::ServerContext&) {
    // A call that is cancelled before its first chunk looks like an empty share here.
    if (call.header.first_element() != 0) return grpc::Status::OK;
    EXPECT_TRUE(Await([this] { return service_.started() >= 3; }));
    failed_ = true;
    return ErrorWithReason(grpc::StatusCode::OUT_OF_RANGE, "too large", "OVERFLOW");
  };
  // The other stream does not get beyond the second share's first chunk, so the third is from the first
  // stream.
  const auto generate = [&](std::uint64_t offset, std::span<std::byte> chunk) {
    std::memset(chunk.data(), 0, chunk.size());
    const std::uint64_t share = offset / (kShareElements * 4);
    if (share == 0 || offset == 2 * kShareElements * 4) return;
    EXPECT_LE(share, 2u);
    EXPECT_TRUE(Await([&] { return failed_.load(); }));
    absl::SleepFor(absl::Milliseconds(50));
    if (share == 2) ++sent_after;
  };
  const absl::Status status =
      client_.ReduceGenerated(kSumSpec, ElementType::kInt32, 4 * kShareElements * 4, generate, {.streams = 2})
          .status();
  EXPECT_EQ(ReasonOf(status), "OVERFLOW") << status;
  EXPECT_LE(sent_after, 4);
}

TEST_F(LookAheadTest, TwoSharesThatBreakTogetherAreOneFailure) {
  absl::Mutex mutex;
  std::set<std::uint64_t> broken;
  service_.on_commit = [&](const SeenCall& call, grpc::ServerContext&) {
    AwaitBothAhead();
    absl::MutexLock lock(&mutex);
    const bool breaks =
        call.header.first_element() < 4 * kShareElements && broken.insert(call.header.first_element()).second;
    return breaks ? ErrorWithReason(grpc::StatusCode::UNAVAILABLE, "device lost", "DEVICE_LOST")
                  : grpc::Status::OK;
  };
  ExpectSum(Reduce());
  EXPECT_EQ(service_.started(), static_cast<int>(kShares) + 4);
}

TEST_F(LookAheadTest, BothCallsEndAtACancellation) {
  service_.on_commit = [&](const SeenCall&, grpc::ServerContext& context) {
    if (AwaitBothAhead()) stop_.request_stop();
    EXPECT_TRUE(Await([&] { return context.IsCancelled(); }));
    return grpc::Status::CANCELLED;
  };
  const absl::Status status = Reduce({.stop = stop_.get_token()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(service_.started(), 4);
}

TEST_F(LookAheadTest, BothCallsEndAtTheDeadline) {
  service_.on_commit = [&](const SeenCall&, grpc::ServerContext& context) {
    EXPECT_TRUE(Await([&] { return context.IsCancelled(); }));
    return grpc::Status::CANCELLED;
  };
  const absl::Status status = Reduce({.timeout = absl::Seconds(2)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_LE(service_.started(), 4);
}

TEST_F(LookAheadTest, AServerThatHasOnlyAPlaceForEachStreamIsNotAskedForMore) {
  std::atomic<int> under_way = 0;
  std::atomic<int> refused = 0;
  service_.on_start = [&](int, grpc::ServerContext&) {
    // A rejected call has no place for a moment either: another would be rejected because of it.
    for (int now = under_way; now < 2;) {
      if (under_way.compare_exchange_weak(now, now + 1)) return grpc::Status::OK;
    }
    ++refused;
    return Busy(1);
  };
  service_.on_commit = [&](const SeenCall&, grpc::ServerContext&) {
    absl::SleepFor(absl::Milliseconds(20));
    --under_way;
    return grpc::Status::OK;
  };
  ExpectSum(Reduce());
  // One look ahead for each stream, and a call that found the place of its stream taken by the other's, which
  // happens more than once on a busy machine. A client that went on looking ahead would be rejected six times
  // and more.
  EXPECT_GE(refused, 1);
  EXPECT_LE(refused, 5);
}

}  // namespace
}  // namespace warpfold
