// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Named algorithms, from the header to the slots: which requests are rejected, and that the device reduces
// every element. The fake device's slots reduce in the canonical order, whatever the name.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "server/core/calls/merge.h"
#include "server/core/calls/reduce_session.h"
#include "server/core/calls/server_info.h"
#include "server/core/slots/array_reducer.h"
#include "server/core/wire/messages.h"
#include "server/core/wire/operator_names.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

v1::ReduceRequest NamedHeader(v1::Algorithm algorithm) {
  v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_MIN});
  header.mutable_header()->mutable_spec()->set_algorithm(algorithm);
  return header;
}

class AlgorithmTest : public testing::Test {
 protected:
  AlgorithmTest()
      : service_(backend_, Limits{.max_stream_bytes = 1 << 20}, [] { return absl::UnixEpoch(); }) {}

  // With `slow`, others want all slots between two messages.
  absl::StatusOr<v1::Reduction> Run(const std::vector<v1::ReduceRequest>& requests, bool slow = false) {
    std::vector<Message> messages;
    for (const v1::ReduceRequest& request : requests) messages.push_back(MessageOf(request));
    return DriveSession(service_, pool_, messages, [&] {
      if (slow) RevokeLoans(pool_);
    });
  }

  // Because of the header alone: nothing of the array has been taken.
  void ExpectRefused(const v1::ReduceRequest& header, absl::StatusCode code, const std::string& reason) {
    SessionDriver driver(service_, pool_);
    driver.OnMessage(MessageOf(header));
    ASSERT_TRUE(driver.ended());
    const absl::Status status = driver.result().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(kernels::ErrorReason(status), reason) << status;
  }

  FakeBackend backend_;
  Service service_;
  SlotPool pool_{SlotsOf(backend_)};
};

TEST_F(AlgorithmTest, NamesGoThereAndBack) {
  for (int i = 0; i < kernels::kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<kernels::Algorithm>(i);
    const v1::Algorithm proto = AlgorithmToProto(algorithm);
    EXPECT_NE(proto, v1::ALGORITHM_UNSPECIFIED) << kernels::AlgorithmName(algorithm);
    EXPECT_EQ(AlgorithmFromProto(proto), algorithm);
  }
  EXPECT_EQ(v1::Algorithm_descriptor()->value_count(), kernels::kAlgorithmCount + 1);
  EXPECT_EQ(AlgorithmFromProto(v1::ALGORITHM_UNSPECIFIED), kernels::Algorithm::kAuto);
  EXPECT_EQ(AlgorithmFromProto(static_cast<v1::Algorithm>(999)), std::nullopt);
}

TEST_F(AlgorithmTest, TheDeviceReducesEveryElement) {
  service_.cpu_crossover_bytes = 1 << 20;
  for (const std::size_t n : {1, 1023, 1024, 1025, 50001}) {
    for (const bool pause : {false, true}) {
      std::vector<std::int32_t> elements(n);
      std::iota(elements.begin(), elements.end(), 1);
      const int before = backend_.behaviour.starts;
      const auto response =
          Run({NamedHeader(v1::ALGORITHM_LAST_BLOCK), Chunk(elements), Commit(n, n * 4)}, pause);
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_EQ(response->results(0).int64_value(), static_cast<std::int64_t>(n * (n + 1) / 2));
      EXPECT_EQ(response->element_count(), n);
      EXPECT_GT(backend_.behaviour.starts, before);
      EXPECT_EQ(backend_.behaviour.starts, backend_.behaviour.waits);
      EXPECT_EQ(pool_.free(), pool_.size());
    }
  }
  EXPECT_EQ(backend_.behaviour.elements, 2 * (1 + 1023 + 1024 + 1025 + 50001));
}

TEST_F(AlgorithmTest, OfAnEmptyArrayNothingIsLaunched) {
  v1::ReduceRequest header = NamedHeader(v1::ALGORITHM_LAST_BLOCK);
  header.mutable_header()->mutable_spec()->clear_operators();
  header.mutable_header()->mutable_spec()->add_operators(v1::OPERATOR_SUM);
  const auto response = Run({header, Commit(0, 0)});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results(0).int64_value(), 0);
  EXPECT_EQ(backend_.behaviour.starts, 0);
}

TEST_F(AlgorithmTest, AFailureOnTheTailGivesTheSlotBack) {
  for (const bool at_start : {true, false}) {
    backend_.behaviour.fail_start = at_start;
    backend_.behaviour.fail_wait = !at_start;
    const std::vector<std::int32_t> elements(10);
    const auto response = Run({NamedHeader(v1::ALGORITHM_LAST_BLOCK), Chunk(elements), Commit(10, 40)});
    EXPECT_EQ(kernels::ErrorReason(response.status()), "DEVICE_LOST");
    EXPECT_EQ(pool_.free(), pool_.size());
  }
}

// All of the array has come, and waits for a slot for its last elements.
TEST_F(AlgorithmTest, TheTailWaitsForASlot) {
  backend_.behaviour.SetBlocked(true);
  SessionDriver driver(service_, pool_);
  driver.OnMessage(MessageOf(NamedHeader(v1::ALGORITHM_LAST_BLOCK)));
  driver.OnMessage(MessageOf(Chunk(std::vector<std::int32_t>(2 * 16384 + 7, 1))));
  driver.OnMessage(MessageOf(Commit(2 * 16384 + 7, 8 * 16384 + 28)));
  EXPECT_EQ(pool_.waiting(), 1u);
  driver.OnEnd();
  EXPECT_EQ(driver.need(), ReduceSession::Need::kDevice);
  backend_.behaviour.Finish(1);
  pool_.Poll();
  EXPECT_EQ(pool_.in_flight(), 2u);
  backend_.behaviour.FinishAll();
  pool_.Poll();
  ASSERT_TRUE(driver.ended() && driver.result().ok());
  EXPECT_EQ(driver.result()->results(0).int64_value(), 2 * 16384 + 7);
}

TEST_F(AlgorithmTest, ADeviceWithoutItRefusesAtTheHeader) {
  backend_.has_algorithms = false;
  ExpectRefused(NamedHeader(v1::ALGORITHM_GRID_STRIDE), absl::StatusCode::kUnimplemented,
                "UNSUPPORTED_ALGORITHM");
  EXPECT_TRUE(Run({NamedHeader(v1::ALGORITHM_AUTO), Chunk(std::vector<std::int32_t>{1}), Commit(1, 4)}).ok());

  v1::ReduceArrayRequest request;
  *request.mutable_spec() = NamedHeader(v1::ALGORITHM_GRID_STRIDE).header().spec();
  const absl::Status status = DriveArray(service_, pool_, MessageOf(request)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(kernels::ErrorReason(status), "UNSUPPORTED_ALGORITHM");
}

TEST_F(AlgorithmTest, WhatItCannotServeIsRefused) {
  v1::ReduceRequest ordered = Header({v1::OPERATOR_MATRIX_PRODUCT});
  v1::ReductionSpec& spec = *ordered.mutable_header()->mutable_spec();
  spec.mutable_matrix_shape()->set_rows(2);
  spec.mutable_matrix_shape()->set_columns(2);
  spec.set_algorithm(v1::ALGORITHM_SEQUENTIAL_ADDRESSING);
  ExpectRefused(ordered, absl::StatusCode::kInvalidArgument, "UNSUPPORTED_ALGORITHM");
  v1::ReduceRequest untaught = Header({v1::OPERATOR_VARIANCE});
  untaught.mutable_header()->mutable_spec()->set_algorithm(v1::ALGORITHM_LAST_BLOCK);
  ExpectRefused(untaught, absl::StatusCode::kInvalidArgument, "UNSUPPORTED_ALGORITHM");
  ExpectRefused(NamedHeader(static_cast<v1::Algorithm>(999)), absl::StatusCode::kUnimplemented,
                "UNSUPPORTED_ALGORITHM");
}

TEST_F(AlgorithmTest, StatesDoNotTravel) {
  v1::ReduceRequest stripe = NamedHeader(v1::ALGORITHM_LAST_BLOCK);
  stripe.mutable_header()->set_first_element(1024);
  ExpectRefused(stripe, absl::StatusCode::kInvalidArgument, "BAD_HEADER");
  v1::ReduceRequest state = NamedHeader(v1::ALGORITHM_LAST_BLOCK);
  state.mutable_header()->set_return_state(true);
  ExpectRefused(state, absl::StatusCode::kInvalidArgument, "BAD_HEADER");

  v1::MergeRequest merge;
  *merge.mutable_spec() = NamedHeader(v1::ALGORITHM_LAST_BLOCK).header().spec();
  merge.add_states();
  EXPECT_EQ(kernels::ErrorReason(Merge(service_, merge).status()), "BAD_HEADER");
  // Whatever the states contain.
  merge.mutable_states(0)->add_range_states("1234");
  EXPECT_EQ(kernels::ErrorReason(Merge(service_, merge).status()), "BAD_HEADER");
}

TEST_F(AlgorithmTest, ServerInfoListsThoseOfTheDevice) {
  EXPECT_EQ(GetServerInfo(service_).algorithms_size(), kernels::kAlgorithmCount);
  backend_.has_algorithms = false;
  const v1::GetServerInfoResponse info = GetServerInfo(service_);
  ASSERT_EQ(info.algorithms_size(), 1);
  EXPECT_EQ(info.algorithms(0), v1::ALGORITHM_AUTO);
}

// A kernel of the textbook may be far slower than those of the service.
TEST_F(AlgorithmTest, ADeviceHasMoreTimeForNamedOnes) {
  for (const bool named : {false, true}) {
    const v1::ReduceRequest header =
        NamedHeader(named ? v1::ALGORITHM_SINGLE_BLOCK : v1::ALGORITHM_UNSPECIFIED);
    SlotPool pool(SlotsOf(backend_), &service_.device);
    backend_.behaviour.SetBlocked(true);
    ArrayReducer reducer(PartySlots(pool, "a"), service_.clock,
                         {.reduction = PlanFromProto(header.header().spec()).value()}, [] {});
    const std::vector<std::byte> bytes(8192, std::byte{1});
    ASSERT_EQ(reducer.Append(bytes, nullptr).value(), bytes.size());
    EXPECT_FALSE(reducer.TryFinish().value());
    EXPECT_EQ(service_.device.Begin(0), 2 * bytes.size() * (named ? 50 : 1)) << "two operators";
    backend_.behaviour.FinishAll();
    backend_.behaviour.SetBlocked(false);
    pool.Poll();
  }
}

}  // namespace
}  // namespace warpfold::server
