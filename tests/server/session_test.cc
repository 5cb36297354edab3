// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "kernels/error.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

std::vector<std::int32_t> Ascending(std::size_t n) {
  std::vector<std::int32_t> elements(n);
  std::iota(elements.begin(), elements.end(), 1);
  return elements;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() : engine_(backend_, Limits{.max_stream_bytes = 1 << 20}, [this] { return now_; }) {}

  absl::Status Send(Session& session, const v1::ReduceRequest& request) {
    const std::string bytes = request.SerializeAsString();
    return session.OnMessage(Cut(bytes, {bytes.size() / 2}));
  }

  // Sends the messages until one fails, then ends the stream; pauses after each if asked to.
  absl::StatusOr<v1::ReduceResponse> Run(const std::vector<v1::ReduceRequest>& requests, bool pause = false) {
    Session session(engine_, call_);
    for (const v1::ReduceRequest& request : requests) {
      if (absl::Status status = Send(session, request); !status.ok()) return status;
      if (!pause) continue;
      if (absl::Status status = session.OnPause(); !status.ok()) return status;
      EXPECT_EQ(engine_.slots.free(), engine_.slots.size());
    }
    return session.OnEnd();
  }

  void ExpectError(const std::vector<v1::ReduceRequest>& requests, absl::StatusCode code,
                   const std::string& reason) {
    const absl::Status status = Run(requests).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(kernels::ErrorReason(status), reason) << status;
    EXPECT_EQ(engine_.slots.free(), engine_.slots.size());
    EXPECT_EQ(backend_.behaviour.starts, backend_.behaviour.waits);
  }

  absl::Time now_ = absl::UnixEpoch();
  FakeBackend backend_;
  Engine engine_;
  CallControl call_{absl::UnixEpoch(), absl::InfiniteFuture(), {}};
};

TEST_F(SessionTest, ReducesAnArray) {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX, v1::OPERATOR_ARGMIN});
  header.mutable_header()->set_expected_element_count(50000);
  const auto elements = Ascending(50000);
  const auto response = Run({header, Chunk(elements), Commit(50000, 200000)});
  ASSERT_TRUE(response.ok()) << response.status();
  const v1::Reduction& reduction = response->reduction();
  EXPECT_EQ(reduction.element_count(), 50000u);
  EXPECT_EQ(reduction.device(), "fake:0");
  ASSERT_EQ(reduction.results_size(), 3);
  EXPECT_EQ(reduction.results(0).operator_(), v1::OPERATOR_SUM);
  EXPECT_EQ(reduction.results(0).int64_value(), 50000LL * 50001 / 2);
  EXPECT_EQ(reduction.results(1).int64_value(), 50000);
  EXPECT_EQ(reduction.results(2).index(), 0u);
  EXPECT_FALSE(reduction.has_state());
  EXPECT_GT(backend_.behaviour.starts, 2);
}

TEST_F(SessionTest, BelowTheCrossoverNoSlotIsUsed) {
  engine_.cpu_crossover_bytes = 100000;
  const auto elements = Ascending(20000);
  const auto response = Run({Header({v1::OPERATOR_SUM}), Chunk(elements), Commit(20000, 80000)}, true);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->reduction().results(0).int64_value(), 20000LL * 20001 / 2);
  EXPECT_EQ(backend_.behaviour.starts, 0);
}

TEST_F(SessionTest, OrderOfMessages) {
  const auto header = Header({v1::OPERATOR_SUM});
  const auto chunk = Chunk(Ascending(10000));
  const auto commit = Commit(10000, 40000);
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectError({chunk}, bad, "BAD_ORDER");
  ExpectError({commit}, bad, "BAD_ORDER");
  ExpectError({header, header}, bad, "BAD_ORDER");
  ExpectError({header, chunk, header}, bad, "BAD_ORDER");
  ExpectError({header, chunk, commit, chunk}, bad, "BAD_ORDER");
  ExpectError({header, chunk, commit, commit}, bad, "BAD_ORDER");
  ExpectError({header, chunk, commit, header}, bad, "BAD_ORDER");
  ExpectError({v1::ReduceRequest()}, bad, "BAD_MESSAGE");
  ExpectError({}, absl::StatusCode::kDataLoss, "NO_COMMIT");
  ExpectError({header}, absl::StatusCode::kDataLoss, "NO_COMMIT");
  ExpectError({header, chunk}, absl::StatusCode::kDataLoss, "NO_COMMIT");
}

TEST_F(SessionTest, CommitsThatDoNotMatch) {
  const auto header = Header({v1::OPERATOR_SUM});
  const auto chunk = Chunk(Ascending(100));
  const auto loss = absl::StatusCode::kDataLoss;
  ExpectError({header, chunk, Commit(101, 400)}, loss, "COUNT_MISMATCH");
  ExpectError({header, chunk, Commit(100, 404)}, loss, "COUNT_MISMATCH");
  ExpectError({header, chunk, Commit(0, 0)}, loss, "COUNT_MISMATCH");
  // Where a careless product would wrap around to 400.
  ExpectError({header, chunk, Commit((std::uint64_t{1} << 62) + 100, 400)}, loss, "COUNT_MISMATCH");
  ExpectError({header, Chunk("abcdef", 6), Commit(1, 6)}, loss, "COUNT_MISMATCH");
  ExpectError({header, Chunk("abcdef", 6), Commit(2, 6)}, loss, "COUNT_MISMATCH");

  v1::ReduceRequest expecting = header;
  expecting.mutable_header()->set_expected_element_count(99);
  ExpectError({expecting, chunk}, loss, "COUNT_MISMATCH");
  expecting.mutable_header()->set_expected_element_count(101);
  ExpectError({expecting, chunk, Commit(100, 400)}, loss, "COUNT_MISMATCH");
}

TEST_F(SessionTest, Checksums) {
  const std::string data = "123456789abc";
  v1::ReduceRequest chunk = Chunk(data.data(), data.size());
  v1::ReduceRequest commit = Commit(3, 12);
  const std::uint32_t crc32c = proto::ComputeCrc32c(AsBytes(data));
  chunk.mutable_chunk()->set_crc32c(crc32c);
  commit.mutable_commit()->set_crc32c(crc32c);
  const auto header = Header({v1::OPERATOR_SUM});
  EXPECT_TRUE(Run({header, chunk, commit}).ok());
  commit.mutable_commit()->set_crc32c(crc32c ^ 1);
  ExpectError({header, chunk, commit}, absl::StatusCode::kDataLoss, "CHECKSUM_MISMATCH");
  chunk.mutable_chunk()->set_crc32c(0);
  ExpectError({header, chunk}, absl::StatusCode::kDataLoss, "CHECKSUM_MISMATCH");
}

TEST_F(SessionTest, BadHeaders) {
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectError({Header({})}, bad, "BAD_HEADER");
  ExpectError({Header({v1::OPERATOR_UNSPECIFIED})}, bad, "BAD_HEADER");
  ExpectError({Header({v1::OPERATOR_SUM, v1::OPERATOR_SUM})}, bad, "BAD_HEADER");
  ExpectError({Header(std::vector<v1::Operator>(17, v1::OPERATOR_SUM))}, bad, "BAD_HEADER");
  ExpectError({Header({static_cast<v1::Operator>(63)})}, absl::StatusCode::kUnimplemented,
              "UNKNOWN_OPERATOR");
  ExpectError({Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_UNSPECIFIED)}, bad, "BAD_HEADER");
  ExpectError({Header({v1::OPERATOR_SUM}, static_cast<v1::ElementType>(31))}, bad, "BAD_HEADER");
  ExpectError({Header({v1::OPERATOR_BIT_AND}, v1::ELEMENT_TYPE_FLOAT32)}, bad, "UNSUPPORTED_TYPE");
  ExpectError({Header({v1::OPERATOR_MATRIX_PRODUCT})}, bad, "UNSUPPORTED_TYPE");

  const auto with = [](auto change) {
    v1::ReduceRequest request = Header({v1::OPERATOR_SUM});
    change(*request.mutable_header());
    return request;
  };
  ExpectError({with([](auto& h) { h.mutable_spec()->mutable_matrix_shape()->set_rows(33); })}, bad,
              "BAD_HEADER");
  ExpectError({with([](auto& h) { h.mutable_spec()->mutable_matrix_shape(); })}, bad, "BAD_HEADER");
  ExpectError(
      {with([](auto& h) { h.mutable_spec()->set_overflow_policy(static_cast<v1::OverflowPolicy>(9)); })}, bad,
      "BAD_HEADER");
  ExpectError({with([](auto& h) { h.mutable_spec()->set_nan_policy(static_cast<v1::NanPolicy>(9)); })}, bad,
              "BAD_HEADER");
  ExpectError({with([](auto& h) { h.set_first_element(1); })}, bad, "BAD_HEADER");
  ExpectError({with([](auto& h) { h.set_first_element(~std::uint64_t{1023}); })}, bad, "BAD_HEADER");
  ExpectError({with([](auto& h) { h.set_request_id(std::string(129, 'x')); })}, bad, "BAD_HEADER");
  ExpectError({with([](auto& h) { h.set_request_id("a\nb"); })}, bad, "BAD_HEADER");
}

TEST_F(SessionTest, OnlyWhatCarriesSomethingIsProgress) {
  const auto seconds = [](int n) { return absl::UnixEpoch() + absl::Seconds(n); };
  CallControl call(seconds(0), absl::InfiniteFuture(), {.idle = absl::Seconds(10)});
  Session session(engine_, call);
  const auto idle_at = [&](int n) { return kernels::ErrorReason(call.Overdue(seconds(n))) == "IDLE"; };
  v1::ReduceRequest empty = Chunk("", 0);
  v1::ReduceRequest padded = empty;
  padded.mutable_chunk()->GetReflection()->MutableUnknownFields(padded.mutable_chunk())->AddVarint(1000, 1);
  v1::ReduceRequest checked = empty;
  checked.mutable_chunk()->set_crc32c(0);

  now_ = seconds(9);
  ASSERT_TRUE(Send(session, Header({v1::OPERATOR_SUM})).ok());
  EXPECT_FALSE(idle_at(18));
  for (const v1::ReduceRequest& nothing : {empty, padded, checked}) {
    now_ = seconds(18);
    ASSERT_TRUE(Send(session, nothing).ok());
    EXPECT_TRUE(idle_at(19)) << nothing.ShortDebugString();
  }
  ASSERT_TRUE(Send(session, Chunk("abcd", 4)).ok());
  EXPECT_FALSE(idle_at(27));
  EXPECT_TRUE(idle_at(28));
  now_ = seconds(27);
  ASSERT_TRUE(Send(session, Commit(1, 4)).ok());
  EXPECT_FALSE(idle_at(36));
}

TEST_F(SessionTest, TooLarge) {
  const auto exhausted = absl::StatusCode::kResourceExhausted;
  v1::ReduceRequest expecting = Header({v1::OPERATOR_SUM});
  expecting.mutable_header()->set_expected_element_count(1 << 18);
  EXPECT_EQ(kernels::ErrorReason(Run({expecting}).status()), "NO_COMMIT");
  for (const std::uint64_t count : {std::uint64_t{1} << 18 | 1, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    expecting.mutable_header()->set_expected_element_count(count);
    ExpectError({expecting}, exhausted, "ARRAY_TOO_LARGE");
  }
  const auto megabyte = Chunk(std::vector<char>(1 << 20));
  const auto header = Header({v1::OPERATOR_SUM});
  EXPECT_TRUE(Run({header, megabyte, Commit(1 << 18, 1 << 20)}).ok());
  ExpectError({header, megabyte, Chunk("x", 1)}, exhausted, "ARRAY_TOO_LARGE");
}

TEST_F(SessionTest, ValuesThatDoNotExist) {
  const auto empty = Commit(0, 0);
  ExpectError({Header({v1::OPERATOR_MIN}), empty}, absl::StatusCode::kInvalidArgument, "EMPTY_ARRAY");
  const auto sum = Run({Header({v1::OPERATOR_SUM}), empty});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(sum->reduction().results(0).int64_value(), 0);

  const auto large = Chunk(std::vector<std::int64_t>(2, INT64_MAX));
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_INT64);
  ExpectError({header, large, Commit(2, 16)}, absl::StatusCode::kOutOfRange, "OVERFLOW");
  header.mutable_header()->set_return_state(true);
  const auto stripe = Run({header, large, Commit(2, 16)});
  ASSERT_TRUE(stripe.ok()) << stripe.status();
  EXPECT_EQ(stripe->reduction().results(0).value_case(), v1::OperatorResult::VALUE_NOT_SET);
  EXPECT_EQ(stripe->reduction().results(1).int64_value(), INT64_MAX);
}

TEST_F(SessionTest, ADeviceThatFailsLeavesThePoolWhole) {
  const auto header = Header({v1::OPERATOR_SUM});
  const auto chunk = Chunk(Ascending(100000));
  const auto commit = Commit(100000, 400000);
  backend_.behaviour.fail_start = true;
  ExpectError({header, chunk, commit}, absl::StatusCode::kUnavailable, "DEVICE_LOST");
  backend_.behaviour.fail_start = false;
  backend_.behaviour.fail_wait = true;
  ExpectError({header, chunk, commit}, absl::StatusCode::kUnavailable, "DEVICE_LOST");
  backend_.behaviour.fail_wait = false;
  EXPECT_TRUE(Run({header, chunk, commit}).ok());
}

TEST_F(SessionTest, AStoppedCallAnswersItsReason) {
  call_.Stop(absl::CancelledError("gone"));
  EXPECT_EQ(Run({Header({v1::OPERATOR_SUM})}).status(), absl::CancelledError("gone"));
  EXPECT_EQ(Run({}).status(), absl::CancelledError("gone"));
}

TEST_F(SessionTest, StoppedWhileItWaitsForASlot) {
  auto first = engine_.slots.TryAcquire();
  auto second = engine_.slots.TryAcquire();
  absl::Status status;
  std::thread runner([&] {
    status = Run({Header({v1::OPERATOR_SUM}), Chunk(Ascending(10000)), Commit(10000, 40000)}).status();
  });
  while (engine_.slots.waiting() == 0) std::this_thread::yield();
  call_.Stop(absl::CancelledError("gone"));
  engine_.slots.Wake();
  runner.join();
  EXPECT_EQ(status, absl::CancelledError("gone"));
  first.reset();
  second.reset();
  EXPECT_EQ(engine_.slots.free(), 2u);
}

// More calls than slots, each with more data than one slot holds: all finish, whatever the order.
TEST_F(SessionTest, ManySessionsShareFewSlots) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const auto response =
            Run({Header({v1::OPERATOR_SUM}), Chunk(Ascending(60000 + t)), Commit(60000 + t, 240000 + 4 * t)});
        ASSERT_TRUE(response.ok()) << response.status();
        EXPECT_EQ(response->reduction().results(0).int64_value(), (60000LL + t) * (60001 + t) / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(engine_.slots.free(), 2u);
}

}  // namespace
}  // namespace warpfold::server
