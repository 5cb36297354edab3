// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Somebody sets the time of day, forward or back, while a client waits or between its calls: nothing ends
// because of it, and nothing takes longer.
#include "tests/set_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/client.h"
#include "client/connections/grpc_process.h"
#include "client/shared_memory.h"
#include "client/tune_grpc.h"
#include "proto/shared/steady_time.h"
#include "tests/client/fake_service.h"
#include "tests/client/memory_peer.h"

namespace warpfold {
namespace {

using std::chrono::seconds;

const Spec kSumSpec = {.operators = {"sum"}};
const std::vector<std::int32_t> kOnes(1000, 1);

// As in a process that has only clients. Otherwise one thread of gRPC polls for all of them, and the others
// wait for times of day, by a clock that no test can set.
const bool kIsTuned = TuneGrpc().ok();

TEST(SteadyTimeTest, NobodyCanSetIt) {
  ClockSetter clock;
  const absl::Time before = SteadyNow();
  const auto system_before = ToSystemTime(before);
  clock.Set(seconds(3600));
  EXPECT_LT(SteadyNow() - before, absl::Minutes(1));
  EXPECT_GE(SteadyNow(), before);
  EXPECT_NEAR(std::chrono::duration<double>(ToSystemTime(before) - system_before).count(), 3600, 1);
  EXPECT_EQ(ToSystemTime(absl::InfiniteFuture()), std::chrono::system_clock::time_point::max());
}

// Abseil notices a step back up to two seconds late, and would wait for a time of day that is far away.
TEST(LookUpCpuFrequencyTest, DoesNotWaitUntilTheClockHasCaughtUp) {
  for (int i = 0; i < 20; ++i) {
    absl::Now();
    absl::SleepFor(absl::Milliseconds(10));
  }
  ClockSetter clock;
  clock.Set(seconds(-3600));
  LookUpCpuFrequency();
}

class SetClockTest : public testing::TestWithParam<int> {
 protected:
  static seconds ahead() { return seconds(GetParam()); }

  ClockSetter clock_;
  std::atomic<bool> over_ = false;  // read by the service until the server has ended
  FakeService service_;
  FakeServer server_{service_};
  Client client_{server_.target(), {.backoff = absl::Milliseconds(5)}};

  void ExpectThatAWaitGoesOn(std::span<const std::int32_t> elements, int streams);
};

void SetClockTest::ExpectThatAWaitGoesOn(std::span<const std::int32_t> elements, int streams) {
  service_.on_start = [this](int, grpc::ServerContext&) {
    while (!over_) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::OK;
  };
  // The server answers long after the library would have noticed a wait that fails.
  absl::Time set_at = absl::InfiniteFuture();
  const auto keep_going = [&, questions = 0]() mutable {
    if (++questions == 2) {
      clock_.Set(ahead());
      set_at = SteadyNow();
    }
    over_ = SteadyNow() - set_at > absl::Milliseconds(1500);
    return true;
  };
  const auto sum = client_.Reduce(
      kSumSpec, elements, {.timeout = absl::Seconds(20), .keep_going = keep_going, .streams = streams});
  over_ = true;
  EXPECT_TRUE(sum.ok()) << sum.status();
}

TEST_P(SetClockTest, ACallThatWaitsGoesOn) { ExpectThatAWaitGoesOn(kOnes, 1); }

TEST_P(SetClockTest, AWaitForSeveralStreamsGoesOn) {
  ExpectThatAWaitGoesOn(std::vector<std::int32_t>(1 << 20, 1), 2);
}

TEST_P(SetClockTest, ANewCallHasItsTime) {
  ASSERT_TRUE(client_.Reduce(kSumSpec, kOnes).ok());
  clock_.Set(ahead());
  const auto sum = client_.Reduce(kSumSpec, kOnes, {.timeout = absl::Seconds(20)});
  EXPECT_TRUE(sum.ok()) << sum.status();
}

// Small pieces are sent twice a second.
TEST_P(SetClockTest, AWriterSendsWhatItHas) {
  std::atomic<bool> has_chunk = false;
  service_.on_chunk = [&](const SeenCall&, grpc::ServerContext&) {
    has_chunk = true;
    return grpc::Status::OK;
  };
  absl::StatusOr<Writer> writer = client_.OpenWriter(kSumSpec, ElementType::kInt32);
  ASSERT_TRUE(writer.ok()) << writer.status();
  clock_.Set(ahead());
  for (int i = 0; i < 200 && !has_chunk; ++i) {
    ASSERT_TRUE(writer->Write(std::as_bytes(std::span(kOnes))).ok());
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(has_chunk);
  EXPECT_TRUE(writer->Commit().ok());
}

// A server that has failed is left out for a second.
TEST_P(SetClockTest, AServerIsAskedAgain) {
  FakeService other_service;
  FakeServer other(other_service);
  service_.on_start = [](int call, grpc::ServerContext&) {
    return call == 0 ? grpc::Status(grpc::UNAVAILABLE, "once") : grpc::Status::OK;
  };
  Client client({server_.target(), other.target()}, {.backoff = absl::Milliseconds(5)});
  const auto reduce = [&] { EXPECT_TRUE(client.Reduce(kSumSpec, kOnes).ok()); };
  while (service_.started() == 0) reduce();
  clock_.Set(ahead());
  for (int i = 0; i < 400 && service_.started() == 1; ++i) {
    reduce();
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_GT(service_.started(), 1);
}

TEST_P(SetClockTest, TheMemorySocketMayAnswerLater) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("memory");
  Peer peer(path);
  const MemoryConnection connection = MemoryConnection::Open(path).value();
  peer.SetHanging(true);
  const auto keep_going = [&, questions = 0]() mutable {
    if (++questions == 2) clock_.Set(ahead());
    if (questions == 5) peer.SetHanging(false);
    return true;
  };
  const auto memory = connection.Allocate(4096, MemoryAccess::kRead, {.keep_going = keep_going});
  EXPECT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE(connection.Allocate(4096).ok());
}

TEST_P(SetClockTest, AThreadThatWaitsForTheMemorySocketGoesOn) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("memory");
  Peer peer(path);
  const MemoryConnection connection = MemoryConnection::Open(path).value();
  peer.SetHanging(true);
  std::atomic<int> asked = 0;
  const auto note = [&] { return ++asked > 0; };
  std::jthread other(
      [&] { EXPECT_TRUE(connection.Allocate(4096, MemoryAccess::kRead, {.keep_going = note}).ok()); });
  while (asked < 3) absl::SleepFor(absl::Milliseconds(1));  // until it awaits the response
  const auto keep_going = [&, questions = 0]() mutable {
    if (++questions == 2) clock_.Set(ahead());
    if (questions == 5) peer.SetHanging(false);
    return true;
  };
  EXPECT_TRUE(connection.Allocate(4096, MemoryAccess::kRead, {.keep_going = keep_going}).ok());
}

// Forward and back: by less than a call has, by more than the memory socket may be silent, and by an hour.
INSTANTIATE_TEST_SUITE_P(Steps, SetClockTest, testing::Values(1, 30, 300, -30, -3600), [](const auto& step) {
  const std::string size = std::to_string(std::abs(step.param));
  return (step.param < 0 ? "Back" : "Forward") + size;
});

}  // namespace
}  // namespace warpfold
