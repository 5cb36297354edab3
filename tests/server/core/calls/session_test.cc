// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/server/core/calls/session_fixture.h"

namespace warpfold::server {
namespace {

TEST_F(SessionTest, ReducesAnArray) {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX, v1::OPERATOR_ARGMIN});
  header.mutable_header()->set_expected_element_count(50000);
  const auto elements = Ascending(50000);
  const auto response = Run({header, Chunk(elements), Commit(50000, 200000)});
  ASSERT_TRUE(response.ok()) << response.status();
  const v1::Reduction& reduction = *response;
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
  service_.cpu_crossover_bytes = 100000;
  const auto elements = Ascending(20000);
  const auto response = Run({Header({v1::OPERATOR_SUM}), Chunk(elements), Commit(20000, 80000)}, true);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results(0).int64_value(), 20000LL * 20001 / 2);
  EXPECT_EQ(backend_.behaviour.starts, 0);
}

// Their states are not states of parts: they do not merge.
TEST_F(SessionTest, WhereAnAlgorithmIsNamedThereAreNoParts) {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM});
  header.mutable_header()->mutable_spec()->set_algorithm(v1::ALGORITHM_WARP_SHUFFLE);
  v1::ReduceRequest part = header;
  part.mutable_header()->set_first_element(1024);
  ExpectError({part}, absl::StatusCode::kInvalidArgument, "BAD_HEADER");
  v1::ReduceRequest with_state = header;
  with_state.mutable_header()->set_return_state(true);
  ExpectError({with_state}, absl::StatusCode::kInvalidArgument, "BAD_HEADER");
}

TEST_F(SessionTest, MatricesHaveTheirShapeAndSumsMayWrap) {
  v1::ReduceRequest matrices = Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_FLOAT64);
  matrices.mutable_header()->mutable_spec()->mutable_matrix_shape()->set_rows(1);
  matrices.mutable_header()->mutable_spec()->mutable_matrix_shape()->set_columns(3);
  const auto matrix = Run({matrices, Chunk(std::vector<double>{1, 2, 3, 10, 20, 30}), Commit(2, 48)});
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  const v1::MatrixValue& value = matrix->results(0).matrix_value();
  EXPECT_EQ(value.rows(), 1u);
  EXPECT_EQ(value.columns(), 3u);
  EXPECT_EQ(std::vector<double>(value.double_entries().begin(), value.double_entries().end()),
            (std::vector<double>{11, 22, 33}));

  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  v1::ReduceRequest sum = Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT64);
  const v1::ReduceRequest chunk = Chunk(std::vector<std::int64_t>{kMost, 1});
  EXPECT_EQ(kernels::ErrorReason(Run({sum, chunk, Commit(2, 16)}).status()), "OVERFLOW");
  sum.mutable_header()->mutable_spec()->set_overflow_policy(v1::OVERFLOW_POLICY_WRAP);
  const auto wrapped = Run({sum, chunk, Commit(2, 16)});
  ASSERT_TRUE(wrapped.ok()) << wrapped.status();
  EXPECT_EQ(wrapped->results(0).int64_value(), std::numeric_limits<std::int64_t>::min());
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
  // Here a careless product would wrap around to 400.
  ExpectError({header, chunk, Commit((std::uint64_t{1} << 62) + 100, 400)}, loss, "COUNT_MISMATCH");
  ExpectError({header, Chunk("abcdef", 6), Commit(1, 6)}, loss, "COUNT_MISMATCH");
  ExpectError({header, Chunk("abcdef", 6), Commit(2, 6)}, loss, "COUNT_MISMATCH");

  v1::ReduceRequest expecting = header;
  expecting.mutable_header()->set_expected_element_count(99);
  ExpectError({expecting, chunk}, loss, "COUNT_MISMATCH");
  expecting.mutable_header()->set_expected_element_count(101);
  ExpectError({expecting, chunk, Commit(100, 400)}, loss, "COUNT_MISMATCH");
}

TEST_F(SessionTest, BadHeaders) {
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectError({Header({})}, bad, "BAD_HEADER");
  ExpectError({Header({v1::OPERATOR_UNSPECIFIED})}, bad, "BAD_HEADER");
  ExpectError({Header({v1::OPERATOR_SUM, v1::OPERATOR_SUM})}, bad, "BAD_HEADER");
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
  constexpr std::uint64_t kLeaf = 1024;
  for (const int beyond : {-1, 0, 1}) {
    const std::uint64_t first = service_.limits.max_first_byte() / 4 + beyond * kLeaf;
    const auto stripe = Run({with([&](auto& h) { h.set_first_element(first); }), Commit(0, 0)});
    EXPECT_EQ(kernels::ErrorReason(stripe.status()), beyond > 0 ? "BAD_HEADER" : "") << beyond;
  }
  ExpectError({with([](auto& h) { h.set_first_element(~std::uint64_t{1023}); })}, bad, "BAD_HEADER");
  const auto named = [&](std::size_t bytes) {
    return Run({with([&](auto& h) { h.set_request_id(std::string(bytes, 'x')); }), Commit(0, 0)}).status();
  };
  EXPECT_TRUE(named(127).ok());
  EXPECT_TRUE(named(128).ok());
  EXPECT_EQ(kernels::ErrorReason(named(129)), "BAD_HEADER");
  ExpectError({with([](auto& h) { h.set_request_id("a\nb"); })}, bad, "BAD_HEADER");
}

TEST_F(SessionTest, OnlyWhatCarriesSomethingIsProgress) {
  v1::ReduceRequest empty = Chunk("", 0);
  v1::ReduceRequest padded = empty;
  padded.mutable_chunk()->GetReflection()->MutableUnknownFields(padded.mutable_chunk())->AddVarint(1000, 1);
  v1::ReduceRequest checked = empty;
  checked.mutable_chunk()->set_crc32c(0);

  SessionDriver driver(service_, pool_);
  const auto progress = [&](const v1::ReduceRequest& request) {
    driver.OnMessage(MessageOf(request));
    EXPECT_FALSE(driver.ended());
    return driver.session().made_progress();
  };
  EXPECT_TRUE(progress(Header({v1::OPERATOR_SUM})));
  for (const v1::ReduceRequest& nothing : {empty, padded, checked}) {
    EXPECT_FALSE(progress(nothing)) << nothing.ShortDebugString();
  }
  EXPECT_TRUE(progress(Chunk("abcd", 4)));
  EXPECT_FALSE(progress(empty));
  EXPECT_TRUE(progress(Commit(1, 4)));
}

// Each of them once: a name that comes twice is rejected for another reason.
TEST_F(SessionTest, OperatorsUpToTheLimit) {
  std::vector<v1::Operator> operators;
  for (int number = v1::OPERATOR_SUM; operators.size() <= kernels::kMaxOperators; ++number) {
    if (number != v1::OPERATOR_MATRIX_PRODUCT) operators.push_back(static_cast<v1::Operator>(number));
  }
  for (const int beyond : {1, 0, -1}) {
    operators.resize(kernels::kMaxOperators + beyond);
    const auto reduction = Run({Header(operators), Chunk(Ascending(1)), Commit(1, 4)});
    if (beyond > 0) {
      EXPECT_EQ(kernels::ErrorReason(reduction.status()), "BAD_HEADER");
    } else {
      ASSERT_TRUE(reduction.ok()) << reduction.status();
      EXPECT_EQ(reduction->results_size(), kernels::kMaxOperators + beyond);
    }
  }
}

TEST_F(SessionTest, TooLarge) {
  const auto exhausted = absl::StatusCode::kResourceExhausted;
  v1::ReduceRequest expecting = Header({v1::OPERATOR_SUM});
  for (const std::uint64_t count : {(1 << 18) - 1, 1 << 18}) {
    expecting.mutable_header()->set_expected_element_count(count);
    EXPECT_EQ(kernels::ErrorReason(Run({expecting}).status()), "NO_COMMIT");
  }
  for (const std::uint64_t count : {std::uint64_t{1} << 18 | 1, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    expecting.mutable_header()->set_expected_element_count(count);
    ExpectError({expecting}, exhausted, "ARRAY_TOO_LARGE");
  }
  const auto megabyte = Chunk(std::vector<char>(1 << 20));  // of data: its framing does not count
  const auto header = Header({v1::OPERATOR_SUM});
  const auto less = Chunk(std::vector<char>((1 << 20) - 4));
  EXPECT_TRUE(Run({header, less, Commit((1 << 18) - 1, (1 << 20) - 4)}).ok());
  EXPECT_TRUE(Run({header, megabyte, Commit(1 << 18, 1 << 20)}).ok());
  ExpectError({header, megabyte, Chunk("x", 1)}, exhausted, "ARRAY_TOO_LARGE");
}

TEST_F(SessionTest, ValuesThatDoNotExist) {
  const auto empty = Commit(0, 0);
  ExpectError({Header({v1::OPERATOR_MIN}), empty}, absl::StatusCode::kInvalidArgument, "EMPTY_ARRAY");
  const auto sum = Run({Header({v1::OPERATOR_SUM}), empty});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(sum->results(0).int64_value(), 0);

  const auto large = Chunk(std::vector<std::int64_t>(2, INT64_MAX));
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_INT64);
  // One of two operators has a value: the other says why it has none.
  const auto partly = Run({header, large, Commit(2, 16)});
  ASSERT_TRUE(partly.ok()) << partly.status();
  EXPECT_EQ(partly->results(0).error().reason(), "OVERFLOW");
  EXPECT_EQ(partly->results(1).int64_value(), INT64_MAX);
  const v1::ReduceRequest sum_alone = Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT64);
  ExpectError({sum_alone, large, Commit(2, 16)}, absl::StatusCode::kOutOfRange, "OVERFLOW");
  header.mutable_header()->set_return_state(true);
  const auto stripe = Run({header, large, Commit(2, 16)});
  ASSERT_TRUE(stripe.ok()) << stripe.status();
  EXPECT_EQ(stripe->results(0).value_case(), v1::OperatorResult::VALUE_NOT_SET);
  EXPECT_EQ(stripe->results(1).int64_value(), INT64_MAX);
}

TEST_F(SessionTest, ReduceArray) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = Header({v1::OPERATOR_SUM}).header().spec();
  request.set_request_id("the client's");
  const std::vector<std::int32_t> elements(70000, 3);
  request.set_data(elements.data(), elements.size() * 4);
  const auto reduction = DriveArray(service_, pool_, MessageOf(request));
  ASSERT_TRUE(reduction.ok()) << reduction.status();
  EXPECT_EQ(reduction->results(0).int64_value(), 210000);
  EXPECT_EQ(reduction->element_count(), 70000u);
  EXPECT_EQ(reduction->device(), "fake:0");
  EXPECT_FALSE(reduction->has_state());
  ExpectUnharmed();

  const auto reason = [&] {
    return kernels::ErrorReason(DriveArray(service_, pool_, MessageOf(request)).status());
  };
  request.mutable_data()->pop_back();
  EXPECT_EQ(reason(), "BAD_MESSAGE");
  for (const int beyond : {-4, 0, 4}) {
    request.set_data(std::string((1 << 20) + beyond, '\0'));
    EXPECT_EQ(reason(), beyond > 0 ? "ARRAY_TOO_LARGE" : "") << beyond;
  }
  request.set_request_id("\x01");
  EXPECT_EQ(reason(), "BAD_HEADER");
  ExpectUnharmed();
}

TEST_F(SessionTest, TellsLogsWhoAsksAndHowMuchCame) {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM});
  header.mutable_header()->set_request_id("abc");
  SessionDriver driver(service_, pool_);
  driver.OnMessage(MessageOf(header));
  driver.OnMessage(MessageOf(Chunk("abcdef", 6)));
  EXPECT_EQ(driver.session().request_id(), "abc");
  EXPECT_EQ(driver.session().array_bytes(), 6u);
}

TEST_F(SessionTest, TimingsOfThePhases) {
  SessionDriver driver(service_, pool_);
  driver.OnMessage(MessageOf(Header({v1::OPERATOR_SUM})));
  now_ += absl::Seconds(1);
  driver.OnMessage(MessageOf(Chunk(Ascending(16384))));
  now_ += absl::Seconds(1);
  driver.OnMessage(MessageOf(Commit(16384, 65536)));
  now_ += absl::Seconds(1);
  driver.OnEnd();
  ASSERT_TRUE(driver.ended() && driver.result().ok());
  const v1::ServerTimings& timings = driver.result()->timings();
  EXPECT_EQ(timings.receive_ns(), 2'000'000'000u) << "from the header to the commit";
  EXPECT_EQ(timings.queue_ns(), 0u);
  EXPECT_EQ(timings.copy_ns(), static_cast<std::uint64_t>(backend_.behaviour.starts));
  EXPECT_EQ(timings.kernel_ns(), 2 * static_cast<std::uint64_t>(backend_.behaviour.starts));
}

// The log of a call that failed says how long its array had been coming.
TEST_F(SessionTest, AnArrayThatIsNotCommittedComesUntilTheEnd) {
  SessionDriver driver(service_, pool_);
  const auto receive = [&] {
    CallRecord record;
    driver.session().Describe(now_, &record);
    return record.stages->receive;
  };
  driver.OnMessage(MessageOf(Header({v1::OPERATOR_SUM})));
  now_ += absl::Seconds(2);
  driver.OnMessage(MessageOf(Chunk(Ascending(1000))));
  now_ += absl::Seconds(1);
  EXPECT_EQ(receive(), absl::Seconds(3));
  driver.OnMessage(MessageOf(Commit(1000, 4000)));
  now_ += absl::Seconds(1);
  EXPECT_EQ(receive(), absl::Seconds(3)) << "all has come";
  driver.OnEnd();
}

// A slot that is free at once is one that was waited for, if only for no time.
TEST_F(SessionTest, OnlyWhoNeedsASlotWaitsForOne) {
  for (const bool needs_slot : {false, true}) {
    service_.cpu_crossover_bytes = needs_slot ? 0 : 100'000;
    SessionDriver driver(service_, pool_);
    driver.OnMessage(MessageOf(Header({v1::OPERATOR_SUM})));
    driver.OnMessage(MessageOf(Chunk(Ascending(16384))));
    driver.OnMessage(MessageOf(Commit(16384, 65536)));
    driver.OnEnd();
    ASSERT_TRUE(driver.ended() && driver.result().ok());
    EXPECT_EQ(backend_.behaviour.starts > 0, needs_slot);
    CallRecord record;
    driver.session().Describe(now_, &record);
    EXPECT_EQ(record.stages->queue.has_value(), needs_slot);
  }
}

TEST_F(SessionTest, NothingFollowsAnArrayInOneMessage) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = Header({v1::OPERATOR_SUM}).header().spec();
  request.set_data("abcdef");
  PlanCache plans;
  SessionDriver driver(service_, pool_);
  driver.OnArray(MessageOf(request), plans);
  now_ += absl::Seconds(1);
  EXPECT_EQ(kernels::ErrorReason(driver.result().status()), "BAD_MESSAGE");
  CallRecord record;
  driver.session().Describe(now_, &record);
  EXPECT_EQ(record.stages->receive, std::nullopt);
}

}  // namespace
}  // namespace warpfold::server
