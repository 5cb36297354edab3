// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/unary_methods.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/error.h"
#include "kernels/operators/operator_list.h"
#include "kernels/reduction.h"
#include "server/crossover.h"
#include "server/operator_names.h"
#include "server/session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

class UnaryMethodsTest : public testing::Test {
 protected:
  UnaryMethodsTest()
      : engine_(backend_, Limits{.max_stream_bytes = 1 << 20}, [] { return absl::UnixEpoch(); }) {}

  v1::Reduction Stripe(const std::vector<std::int32_t>& elements, std::uint64_t first, std::size_t n) {
    v1::ReduceRequest header = Header({v1::OPERATOR_SUM, v1::OPERATOR_ARGMIN});
    header.mutable_header()->set_first_element(first);
    header.mutable_header()->set_return_state(true);
    Session session(engine_, call_);
    for (const auto& request : {header, Chunk(elements.data() + first, n * 4), Commit(n, n * 4)}) {
      const std::string bytes = request.SerializeAsString();
      EXPECT_TRUE(session.OnMessage(Cut(bytes, {})).ok());
    }
    const auto response = session.OnEnd();
    EXPECT_TRUE(response.ok()) << response.status();
    return response->reduction();
  }

  void ExpectMergeError(const v1::MergeRequest& request, const std::string& reason) {
    const auto response = Merge(engine_, request);
    EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument) << response.status();
    EXPECT_EQ(kernels::ErrorReason(response.status()), reason);
  }

  void ExpectClaim(bool possible, const v1::MergeRequest& request) {
    SCOPED_TRACE(request.ShortDebugString());
    if (!possible) return ExpectMergeError(request, "BAD_STATE");
    const absl::Status status = Merge(engine_, request).status();
    EXPECT_TRUE(status.ok() || kernels::ErrorReason(status) == "OVERFLOW") << status;
  }

  FakeBackend backend_;
  Engine engine_;
  CallControl call_{absl::UnixEpoch(), absl::InfiniteFuture(), {}};
};

TEST_F(UnaryMethodsTest, ReduceArray) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = Header({v1::OPERATOR_SUM}).header().spec();
  std::vector<std::int32_t> elements(70000, 3);
  request.set_data(elements.data(), elements.size() * 4);
  const auto response = ReduceArray(engine_, call_, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->reduction().results(0).int64_value(), 210000);
  EXPECT_EQ(engine_.slots.free(), 2u);

  request.mutable_data()->pop_back();
  EXPECT_EQ(kernels::ErrorReason(ReduceArray(engine_, call_, request).status()), "BAD_MESSAGE");
  request.set_data(std::string((1 << 20) + 4, 'x'));
  EXPECT_EQ(kernels::ErrorReason(ReduceArray(engine_, call_, request).status()), "ARRAY_TOO_LARGE");
  request.set_request_id("\x01");
  EXPECT_EQ(kernels::ErrorReason(ReduceArray(engine_, call_, request).status()), "BAD_HEADER");
}

TEST_F(UnaryMethodsTest, MergeEqualsOnePass) {
  std::vector<std::int32_t> elements(10000);
  std::iota(elements.rbegin(), elements.rend(), -100);
  const v1::Reduction whole = Stripe(elements, 0, 10000);
  v1::MergeRequest request;
  *request.mutable_spec() = Header({v1::OPERATOR_SUM, v1::OPERATOR_ARGMIN}).header().spec();
  request.set_return_state(true);
  *request.add_states() = Stripe(elements, 0, 3072).state();
  *request.add_states() = Stripe(elements, 3072, 1024).state();
  *request.add_states() = Stripe(elements, 4096, 5904).state();
  const auto merged = Merge(engine_, request);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->reduction().state().SerializeAsString(), whole.state().SerializeAsString());
  EXPECT_EQ(merged->reduction().results(0).int64_value(), whole.results(0).int64_value());
  EXPECT_EQ(merged->reduction().results(1).index(), 9999u);
}

TEST_F(UnaryMethodsTest, MergeRefusesStatesThatCannotBe) {
  const std::vector<std::int32_t> elements(10000, 1);
  v1::MergeRequest good;
  *good.mutable_spec() = Header({v1::OPERATOR_SUM, v1::OPERATOR_ARGMIN}).header().spec();
  *good.add_states() = Stripe(elements, 0, 4096).state();
  *good.add_states() = Stripe(elements, 4096, 2048).state();
  ASSERT_TRUE(Merge(engine_, good).ok());

  const auto with = [&](auto change) {
    v1::MergeRequest request = good;
    change(request);
    return request;
  };
  ExpectMergeError(with([](auto& r) { r.clear_states(); }), "BAD_HEADER");
  ExpectMergeError(with([](auto& r) { r.mutable_states()->SwapElements(0, 1); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { *r.add_states() = r.states(0); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_element_count(4095); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_element_count(~std::uint64_t{0}); }),
                   "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_first_element(1); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_first_element(~std::uint64_t{1023}); }),
                   "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->clear_nodes(); }), "BAD_STATE");
  // Refused before memory is taken for their states: two million nodes are a message of 4 MiB.
  ExpectMergeError(with([](auto& r) {
                     for (int i = 0; i < 2'000'000; ++i) r.mutable_states(0)->add_nodes();
                   }),
                   "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->mutable_nodes(0)->set_level(64); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->mutable_nodes(0)->set_index(5); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->mutable_nodes(0)->clear_operator_states(); }),
                   "BAD_STATE");
  ExpectMergeError(
      with([](auto& r) { r.mutable_states(0)->mutable_nodes(0)->mutable_operator_states(0)->pop_back(); }),
      "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_spec()->mutable_operators()->RemoveLast(); }), "BAD_STATE");
}

constexpr auto kInt32 = v1::ELEMENT_TYPE_INT32;
constexpr auto kUint32 = v1::ELEMENT_TYPE_UINT32;
constexpr auto kFloat32 = v1::ELEMENT_TYPE_FLOAT32;

// A Merge of the one leaf from element 1024 on, of `count` elements, whose state is said to be `state`.
template <class Operator>
v1::MergeRequest Claim(v1::ElementType type, std::uint64_t count, const typename Operator::State& state) {
  v1::MergeRequest request;
  *request.mutable_spec() = Header({OperatorByName(Operator::kName)}, type).header().spec();
  v1::PartialState& claimed = *request.add_states();
  claimed.set_first_element(1024);
  claimed.set_element_count(count);
  v1::StateNode& node = *claimed.add_nodes();
  node.set_index(1);
  node.add_operator_states(&state, sizeof state);
  return request;
}

TEST_F(UnaryMethodsTest, MergeRefusesCountsAndIndicesBeyondTheRange) {
  using kernels::Outcome;
  for (const std::uint64_t nonzero : {3, 4}) {
    ExpectClaim(nonzero <= 3, Claim<kernels::CountNonzero<std::int32_t, false>>(kInt32, 3, nonzero));
    ExpectClaim(nonzero <= 3, Claim<kernels::All<std::int32_t, false>>(kInt32, 3, nonzero));
    ExpectClaim(nonzero <= 3, Claim<kernels::Any<std::int32_t, false>>(kInt32, 3, nonzero));
    using Mean = kernels::Mean<float, true>;
    v1::MergeRequest mean = Claim<Mean>(kFloat32, 3, {1.5, nonzero});
    mean.mutable_spec()->set_nan_policy(v1::NAN_POLICY_IGNORE);
    ExpectClaim(nonzero <= 3, mean);
  }
  v1::MergeRequest sum_of_none = Claim<kernels::Mean<float, true>>(kFloat32, 3, {1.5, 0});
  sum_of_none.mutable_spec()->set_nan_policy(v1::NAN_POLICY_IGNORE);
  ExpectClaim(false, sum_of_none);

  using Argmin = kernels::Argmin<std::int32_t, false>;
  ExpectClaim(true, Claim<Argmin>(kInt32, 3, {1026, -5}));
  ExpectClaim(false, Claim<Argmin>(kInt32, 3, {1023, -5}));
  ExpectClaim(false, Claim<Argmin>(kInt32, 3, {1027, -5}));
  ExpectClaim(false, Claim<Argmin>(kInt32, 3, {1026, std::int64_t{1} << 31}));
  ExpectClaim(false, Claim<Argmin>(kInt32, 3, {Outcome::kNoIndex, INT32_MAX}));
  using NanArgmax = kernels::Argmax<float, true>;
  const auto argmax = [&](std::uint64_t index, std::int64_t key) {
    v1::MergeRequest request = Claim<NanArgmax>(kFloat32, 3, {index, key});
    request.mutable_spec()->set_nan_policy(v1::NAN_POLICY_IGNORE);
    return request;
  };
  EXPECT_EQ(kernels::ErrorReason(Merge(engine_, argmax(Outcome::kNoIndex, INT32_MIN)).status()),
            "EMPTY_ARRAY");
  ExpectClaim(false, argmax(Outcome::kNoIndex, 0));
  ExpectClaim(true, argmax(1024, 0));
  ExpectClaim(false, argmax(1024, INT32_MIN));
  ExpectClaim(false, argmax(1024, INT32_MAX));
  using Max = kernels::Max<float, false>;
  ExpectClaim(true, Claim<Max>(kFloat32, 3, INT32_MAX));
  ExpectClaim(false, Claim<Max>(kFloat32, 3, INT32_MAX - 1));
}

TEST_F(UnaryMethodsTest, MergeRefusesNumbersThatNoElementsGive) {
  using Product = kernels::Product<std::int32_t, false>;
  ExpectClaim(true, Claim<Product>(kInt32, 3, {6, 1, 1}));
  ExpectClaim(false, Claim<Product>(kInt32, 3, {6, 2, 0}));
  ExpectClaim(false, Claim<Product>(kInt32, 3, {6, 0, 2}));
  ExpectClaim(false, Claim<Product>(kInt32, 3, {0, 1, 0}));
  ExpectClaim(false, Claim<kernels::Product<std::uint32_t, false>>(kUint32, 3, {6, 1, 0}));

  using Sum = kernels::Sum<std::int32_t, false>;
  const Sum::State largest = Sum::State{INT32_MAX} * 3;
  ExpectClaim(true, Claim<Sum>(kInt32, 3, largest));
  ExpectClaim(false, Claim<Sum>(kInt32, 3, largest + 1));
  ExpectClaim(true, Claim<Sum>(kInt32, 3, -largest - 3));
  ExpectClaim(false, Claim<Sum>(kInt32, 3, -largest - 4));
  ExpectClaim(false, Claim<kernels::Sum<std::uint32_t, false>>(kUint32, 3, -Sum::State{1}));
  ExpectClaim(false, Claim<kernels::Mean<std::uint32_t, false>>(kUint32, 3, -Sum::State{1}));

  using MatrixProduct = kernels::MatrixProduct<std::int32_t, 1>;
  for (const std::int32_t residue : {6, 7, -1}) {
    v1::MergeRequest request = Claim<MatrixProduct>(kInt32, 3, {residue});
    request.mutable_spec()->mutable_matrix_shape()->set_rows(1);
    request.mutable_spec()->mutable_matrix_shape()->set_columns(1);
    request.mutable_spec()->set_modulus(7);
    ExpectClaim(residue == 6, request);
  }
}

TEST_F(UnaryMethodsTest, MergeRefusesStatesOfSeveralNumbersThatDoNotFit) {
  using kernels::Moments;
  for (const std::uint64_t count : {2, 3, 4}) {
    ExpectClaim(count == 3, Claim<kernels::Variance<float, false>>(kFloat32, 3, Moments{1, 2, count}));
    ExpectClaim(count == 3, Claim<kernels::Stddev<float, false>>(kFloat32, 3, Moments{1, 2, count}));
    ExpectClaim(count == 3,
                Claim<kernels::Describe<float, false>>(kFloat32, 3, {{0}, Moments{1, 2, count}, 0, 0}));
    ExpectClaim(count <= 3, Claim<kernels::MaxSubarraySum<float, false>>(
                                kFloat32, 3, {{0, 0, 0, 0, 1024, 1024 + count, 1027, 1025, 1}}));
  }
  for (const std::int32_t key : {INT32_MAX - 1, INT32_MAX}) {
    ExpectClaim(key == INT32_MAX, Claim<kernels::Minmax<float, false>>(kFloat32, 3, {0, key}));
  }
  for (const std::uint64_t present : {0, 1, 2}) {
    ExpectClaim(present == 1, Claim<kernels::First<float, false>>(kFloat32, 3, {7, present}));
    ExpectClaim(present == 1, Claim<kernels::Last<float, false>>(kFloat32, 3, {7, present}));
  }
  for (const std::int32_t residue : {6, 7, -1}) {
    v1::MergeRequest request = Claim<kernels::AffineCompose<std::int32_t>>(kInt32, 3, {{1, residue}});
    request.mutable_spec()->mutable_matrix_shape()->set_rows(1);
    request.mutable_spec()->mutable_matrix_shape()->set_columns(2);
    request.mutable_spec()->set_modulus(7);
    request.mutable_states(0)->mutable_nodes(0)->set_index(2);  // leaves have 512 maps
    ExpectClaim(residue == 6, request);
  }
}

TEST_F(UnaryMethodsTest, ServerInfoListsTheProtosOperators) {
  const v1::GetServerInfoResponse info = GetServerInfo(engine_);
  EXPECT_EQ(info.backend(), "fake");
  EXPECT_EQ(info.limits().slots(), 2u);
  EXPECT_EQ(info.limits().max_stream_bytes(), 1u << 20);
  EXPECT_EQ(info.operators_size(), static_cast<int>(kernels::OperatorNames().size()));
  for (const v1::OperatorInfo& op : info.operators()) {
    EXPECT_NE(op.operator_(), v1::OPERATOR_UNSPECIFIED);
    EXPECT_GT(op.scalar_types_size() + op.matrix_types_size(), 0);
  }
}

TEST(OperatorNamesTest, ProtoAndKernelsKnowTheSame) {
  for (const absl::string_view name : kernels::OperatorNames()) {
    EXPECT_EQ(OperatorName(OperatorByName(name)), std::string(name));
  }
  for (int number = v1::Operator_MIN + 1; number <= v1::Operator_MAX; ++number) {
    const std::string name = OperatorName(static_cast<v1::Operator>(number));
    const auto names = kernels::OperatorNames();
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  for (int i = 0; i < kernels::kElementTypeCount; ++i) {
    const auto type = static_cast<kernels::ElementType>(i);
    EXPECT_EQ(ElementTypeFromProto(ElementTypeToProto(type)), type);
  }
  EXPECT_EQ(OperatorByName("no_such"), v1::OPERATOR_UNSPECIFIED);
  EXPECT_EQ(OperatorName(static_cast<v1::Operator>(63)), "");
}

// A device whose round trip takes a fixed time, on a clock that the host's work does not move.
TEST(CrossoverTest, IsWhereTheDeviceWins) {
  FakeBackend backend(1, std::size_t{256} << 10);
  absl::Time now = absl::UnixEpoch();
  const Clock frozen = [&] { return now; };
  EXPECT_EQ(MeasureCrossoverBytes(backend, frozen).value(), std::uint64_t{256} << 10);
  // Each look at the clock takes longer than the one before while the slot has not been used.
  const Clock until_first_start = [&] {
    if (backend.behaviour.starts == 0) now += absl::Seconds(1);
    return now;
  };
  backend.behaviour.starts = 0;
  EXPECT_EQ(MeasureCrossoverBytes(backend, until_first_start).value(), 4096u);
}

TEST(CrossoverTest, ADeviceThatFailsIsNotServed) {
  FakeBackend backend(1, std::size_t{256} << 10);
  backend.behaviour.fail_start = true;
  EXPECT_EQ(MeasureCrossoverBytes(backend, MonotonicClock()).status(), DeviceLost());
  backend.behaviour.fail_start = false;
  backend.behaviour.fail_wait = true;
  EXPECT_EQ(MeasureCrossoverBytes(backend, MonotonicClock()).status(), DeviceLost());
}

}  // namespace
}  // namespace warpfold::server
