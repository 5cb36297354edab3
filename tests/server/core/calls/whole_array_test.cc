// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that fit in one message, sent with the method ReduceArray: their plans are made once, and their
// bytes are rarely copied.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "server/core/calls/plan_cache.h"
#include "server/core/calls/reduce_session.h"
#include "server/core/limits.h"
#include "server/core/wire/messages.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/piece_heap.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kLeafElements = 1024;

v1::ReductionSpec SpecOf(std::vector<v1::Operator> operators) {
  return Header(std::move(operators)).header().spec();
}

v1::ReduceArrayRequest RequestOf(const v1::ReductionSpec& spec, const std::vector<std::int32_t>& elements) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = spec;
  request.set_data(elements.data(), elements.size() * sizeof(std::int32_t));
  return request;
}

class WholeArrayTest : public testing::Test {
 protected:
  WholeArrayTest() : service_(backend_, Limits{.max_stream_bytes = 1 << 20}, [this] { return now_; }) {}
  ~WholeArrayTest() override {
    EXPECT_EQ(pool_.free(), pool_.size());
    EXPECT_EQ(backend_.behaviour.misuses, 0);
  }

  absl::StatusOr<v1::Reduction> Run(Message message) {
    SessionDriver driver(service_, pool_);
    driver.OnArray(std::move(message), plans_);
    driver.AwaitDevice();
    return driver.result();
  }
  absl::StatusOr<v1::Reduction> Run(const v1::ReduceArrayRequest& request) { return Run(MessageOf(request)); }

  void ExpectValue(const v1::ReduceArrayRequest& request, std::int64_t value) {
    const auto result = Run(request);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->results(0).int64_value(), value);
  }
  void ExpectError(const v1::ReduceArrayRequest& request, const std::string& reason) {
    const auto result = Run(request);
    EXPECT_EQ(kernels::ErrorReason(result.status()), reason) << result.status();
  }

  absl::Time now_ = absl::UnixEpoch();
  FakeBackend backend_;
  Service service_;
  SlotPool pool_{SlotsOf(backend_)};
  PlanCache plans_;
};

TEST_F(WholeArrayTest, APlanIsOfTheBytesOfItsSpec) {
  const auto sum = RequestOf(SpecOf({v1::OPERATOR_SUM}), {3, 4});
  const auto max = RequestOf(SpecOf({v1::OPERATOR_MAX}), {3, 4});
  for (int round = 0; round < 3; ++round) {
    ExpectValue(sum, 7);
    ExpectValue(max, 4);
  }
  EXPECT_EQ(plans_.size(), 2u);
}

TEST_F(WholeArrayTest, APlanThatIsKnownIsNotMadeAnew) {
  const v1::ReductionSpec sum = SpecOf({v1::OPERATOR_SUM});
  plans_.Keep(sum.SerializeAsString(), *PlanFromProto(SpecOf({v1::OPERATOR_MAX})));
  ExpectValue(RequestOf(sum, {3, 4}), 4);
}

// Everything that comes with a known spec is checked as before.
TEST_F(WholeArrayTest, AKnownPlanAllowsNoBadRequest) {
  auto request = RequestOf(SpecOf({v1::OPERATOR_SUM}), {3, 4});
  request.set_request_id("an id");
  for (int round = 0; round < 2; ++round) {
    ExpectValue(request, 7);
    auto bad = request;
    bad.mutable_data()->pop_back();
    ExpectError(bad, "BAD_MESSAGE");
    bad = request;
    bad.set_request_id(std::string(129, 'x'));
    ExpectError(bad, "BAD_HEADER");
    bad.set_request_id("a\nb");
    ExpectError(bad, "BAD_HEADER");
    bad = request;
    bad.set_data(std::string((1 << 20) + 4, 'x'));
    ExpectError(bad, "ARRAY_TOO_LARGE");
    bad.set_data(std::string(kMaxPayloadBytes + 4, 'x'));
    ExpectError(bad, "MESSAGE_TOO_LARGE");
  }
  request.clear_data();
  ExpectValue(request, 0);
}

TEST_F(WholeArrayTest, ASpecThatIsRefusedIsRefusedAgain) {
  auto unknown = RequestOf(SpecOf({static_cast<v1::Operator>(63)}), {1});
  auto algorithm = RequestOf(SpecOf({v1::OPERATOR_SUM}), {1});
  algorithm.mutable_spec()->set_algorithm(v1::ALGORITHM_SINGLE_BLOCK);
  backend_.has_algorithms = false;
  for (int round = 0; round < 2; ++round) {
    ExpectError(RequestOf(SpecOf({}), {1}), "BAD_HEADER");
    ExpectError(unknown, "UNKNOWN_OPERATOR");
    ExpectError(algorithm, "UNSUPPORTED_ALGORITHM");
  }
  // Neither a message that ends within its spec, nor one whose spec is invalid.
  ExpectError(RequestOf(SpecOf({v1::OPERATOR_SUM, v1::OPERATOR_SUM}), {1}), "BAD_HEADER");
  EXPECT_FALSE(Run(MessageOf(std::string("\x0a\x02\x0a\x01\x7a\x04four", 10))).ok());
  EXPECT_EQ(plans_.size(), 0u);
}

// The option might change the value. Elsewhere unknown fields are ignored, as before.
TEST_F(WholeArrayTest, AnOptionOfALaterVersionIsRefused) {
  v1::ReduceArrayRequest request = RequestOf(SpecOf({v1::OPERATOR_SUM}), {1, 2});
  v1::ReductionSpec& spec = *request.mutable_spec();
  spec.GetReflection()->MutableUnknownFields(&spec)->AddVarint(99, 1);
  for (int round = 0; round < 2; ++round) ExpectError(request, "BAD_HEADER");
  EXPECT_NE(Run(request).status().message().find("field 99"), absl::string_view::npos);
  spec.DiscardUnknownFields();
  v1::MatrixShape& shape = *spec.mutable_matrix_shape();
  shape.set_rows(1);
  shape.set_columns(1);
  shape.GetReflection()->MutableUnknownFields(&shape)->AddVarint(99, 1);
  ExpectError(request, "BAD_HEADER");
  // PutArray's header has no spec, but a shape.
  EXPECT_EQ(kernels::ErrorReason(LayoutFromProto(v1::ELEMENT_TYPE_INT32, &shape).status()), "BAD_HEADER");
  spec.clear_matrix_shape();
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(99, 1);
  ExpectValue(request, 3);
}

// Protobuf reads a spec without fields as one that was left out, and programs leave out the whole rather than
// the element type alone.
TEST_F(WholeArrayTest, ARequestWithoutASpecIsToldSo) {
  v1::ReduceArrayRequest none = RequestOf(SpecOf({}), {1});
  none.clear_spec();
  v1::ReduceArrayRequest empty = none;
  empty.mutable_spec();
  for (const v1::ReduceArrayRequest& request : {none, empty}) {
    const absl::Status status = Run(request).status();
    EXPECT_EQ(kernels::ErrorReason(status), "BAD_HEADER") << status;
    EXPECT_EQ(kernels::ErrorDetails(status), kernels::ErrorMetadata({{"field", "spec"}})) << status;
  }
  v1::ReduceArrayRequest no_type = RequestOf(SpecOf({v1::OPERATOR_SUM}), {1});
  no_type.mutable_spec()->clear_element_type();
  EXPECT_EQ(kernels::ErrorDetails(Run(no_type).status()),
            kernels::ErrorMetadata({{"field", "element_type"}}));
}

TEST_F(WholeArrayTest, FewPlansAreKept) {
  auto request = RequestOf(SpecOf({v1::OPERATOR_SUM, v1::OPERATOR_VARIANCE}), {3, 4});
  for (int ddof = 1; ddof < 100; ++ddof) {
    request.mutable_spec()->set_ddof(ddof);
    ExpectValue(request, 7);
  }
  EXPECT_EQ(plans_.size(), PlanCache::kPlans);
  EXPECT_NE(plans_.Find(request.spec().SerializeAsString()), nullptr) << "the last one";
  // A client may make a spec long with fields that nobody knows.
  PlanCache plans;
  const auto plan = *PlanFromProto(SpecOf({v1::OPERATOR_SUM}));
  plans.Keep(std::string(PlanCache::kMaxSpecBytes + 1, 'x'), plan);
  EXPECT_EQ(plans.size(), 0u);
  plans.Keep(std::string(PlanCache::kMaxSpecBytes, 'x'), plan);
  EXPECT_EQ(plans.size(), 1u);
}

TEST_F(WholeArrayTest, ALeafNeedsNoSlot) {
  const v1::ReductionSpec spec = SpecOf({v1::OPERATOR_SUM});
  ExpectValue(RequestOf(spec, std::vector<std::int32_t>(kLeafElements, 1)), kLeafElements);
  EXPECT_EQ(backend_.behaviour.starts, 0);
  ExpectValue(RequestOf(spec, std::vector<std::int32_t>(kLeafElements + 1, 1)), kLeafElements + 1);
  EXPECT_EQ(backend_.behaviour.starts, 1);
}

TEST_F(WholeArrayTest, AnyCutGivesTheSameValue) {
  const std::string bytes =
      RequestOf(SpecOf({v1::OPERATOR_SUM}), std::vector<std::int32_t>(kLeafElements, 3)).SerializeAsString();
  for (std::size_t cut = 0; cut < bytes.size(); cut += 7) {
    const auto result = Run(MessageOf(bytes, {cut, cut + (bytes.size() - cut) / 3}));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->results(0).int64_value(), 3 * static_cast<std::int64_t>(kLeafElements));
  }
}

// Its size is known at once: nothing of it is held back until it reaches the crossover, and the device reads
// all of it where it lies.
TEST_F(WholeArrayTest, FromTheCrossoverOnItGoesToSlotsUncopied) {
  PieceHeap heap;
  ASSERT_TRUE(backend_.OpenPieces(heap.memory()).ok());
  service_.cpu_crossover_bytes = 16 << 10;
  const std::string bytes =
      RequestOf(SpecOf({v1::OPERATOR_SUM}), std::vector<std::int32_t>(8192, 1)).SerializeAsString();
  const std::size_t data = bytes.size() - 8192 * 4;
  backend_.behaviour.SetBlocked(true);
  SessionDriver driver(service_, pool_);
  driver.OnArray(heap.MessageIn(bytes, {data, data + (12 << 10)}, 0), plans_);
  EXPECT_EQ(backend_.behaviour.piece_starts, 1);
  std::fill_n(backend_.slots()[0]->staging().begin(), 4096, std::byte{0xff});
  std::fill_n(backend_.slots()[1]->staging().begin(), 4096, std::byte{0xff});
  backend_.behaviour.SetBlocked(false);
  driver.AwaitDevice();
  ASSERT_TRUE(driver.result().ok()) << driver.result().status();
  EXPECT_EQ(driver.result()->results(0).int64_value(), 8192);
}

// gRPC's memory is borrowed for no longer than it takes to reduce what is there.
TEST_F(WholeArrayTest, AStreamKeepsNoMessageWhileItsClientIsWaitedFor) {
  service_.cpu_crossover_bytes = 1 << 20;
  SessionDriver driver(service_, pool_);
  driver.OnMessage(MessageOf(Header({v1::OPERATOR_SUM})));
  for (int chunk = 0; chunk < 3; ++chunk) {
    Message message = MessageOf(Chunk(std::vector<std::int32_t>(1000, 1)));
    const std::weak_ptr<const void> owner = message.owner;
    driver.OnMessage(std::move(message));
    EXPECT_TRUE(owner.expired());
  }
  driver.OnMessage(MessageOf(Commit(3000, 12000)));
  driver.OnEnd();
  ASSERT_TRUE(driver.result().ok()) << driver.result().status();
  EXPECT_EQ(driver.result()->results(0).int64_value(), 3000);
}

}  // namespace
}  // namespace warpfold::server
