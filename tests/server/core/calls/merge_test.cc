// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/calls/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/error.h"
#include "kernels/operators/operator_list.h"
#include "kernels/operators/traits.h"
#include "proto/limits.h"
#include "server/core/wire/operator_names.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

const std::vector<v1::Operator> kOperators = {v1::OPERATOR_SUM, v1::OPERATOR_ARGMIN};

class MergeTest : public testing::Test {
 protected:
  MergeTest() : service_(backend_, Limits(), [] { return absl::UnixEpoch(); }) {}

  // Of floats, whose sum has a state at each node, and whose argmin has one state for the range.
  v1::Reduction Stripe(const std::vector<float>& elements, std::uint64_t first, std::size_t n) {
    v1::ReduceRequest header = Header(kOperators, v1::ELEMENT_TYPE_FLOAT32);
    header.mutable_header()->set_first_element(first);
    header.mutable_header()->set_return_state(true);
    const auto reduction = DriveSession(
        service_, pool_,
        {MessageOf(header), MessageOf(Chunk(elements.data() + first, n * 4)), MessageOf(Commit(n, n * 4))});
    EXPECT_TRUE(reduction.ok()) << reduction.status();
    return reduction.value_or(v1::Reduction());
  }

  void ExpectMergeError(const v1::MergeRequest& request, const std::string& reason) {
    const auto response = Merge(service_, request);
    EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument) << response.status();
    EXPECT_EQ(kernels::ErrorReason(response.status()), reason);
  }

  void ExpectClaim(bool possible, const v1::MergeRequest& request) {
    SCOPED_TRACE(request.ShortDebugString());
    if (!possible) return ExpectMergeError(request, "BAD_STATE");
    const absl::Status status = Merge(service_, request).status();
    EXPECT_TRUE(status.ok() || kernels::ErrorReason(status) == "OVERFLOW") << status;
  }

  FakeBackend backend_;
  Service service_;
  SlotPool pool_{SlotsOf(backend_)};
};

TEST_F(MergeTest, EqualsOnePass) {
  std::vector<float> elements(10000);
  std::iota(elements.rbegin(), elements.rend(), -100);
  const v1::Reduction whole = Stripe(elements, 0, 10000);
  v1::MergeRequest request;
  *request.mutable_spec() = Header(kOperators, v1::ELEMENT_TYPE_FLOAT32).header().spec();
  request.set_return_state(true);
  *request.add_states() = Stripe(elements, 0, 3072).state();
  *request.add_states() = Stripe(elements, 3072, 1024).state();
  *request.add_states() = Stripe(elements, 4096, 5904).state();
  const auto merged = Merge(service_, request);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->reduction().state().SerializeAsString(), whole.state().SerializeAsString());
  EXPECT_EQ(merged->reduction().results(0).double_value(), whole.results(0).double_value());
  EXPECT_EQ(merged->reduction().results(1).index(), 9999u);
  EXPECT_EQ(merged->reduction().element_count(), 10000u);
  EXPECT_EQ(merged->reduction().device(), "fake:0");
  request.set_return_state(false);
  EXPECT_FALSE(Merge(service_, request)->reduction().has_state());
}

// A client that always says IGNORE merges its states with those of one that never does.
TEST_F(MergeTest, TheNanPolicyOfIntegersDoesNotCount) {
  const std::vector<std::int32_t> elements(8192, 3);
  std::vector<v1::PartialState> states;
  for (const auto policy : {v1::NAN_POLICY_UNSPECIFIED, v1::NAN_POLICY_IGNORE}) {
    v1::ReduceRequest header = Header(kOperators, v1::ELEMENT_TYPE_INT32);
    header.mutable_header()->mutable_spec()->set_nan_policy(policy);
    header.mutable_header()->set_first_element(states.size() * 4096);
    header.mutable_header()->set_return_state(true);
    const auto reduction = DriveSession(
        service_, pool_,
        {MessageOf(header), MessageOf(Chunk(elements.data(), 4096 * 4)), MessageOf(Commit(4096, 4096 * 4))});
    ASSERT_TRUE(reduction.ok()) << reduction.status();
    states.push_back(reduction->state());
    EXPECT_EQ(reduction->state().spec().nan_policy(), v1::NAN_POLICY_UNSPECIFIED);
  }
  states[1].mutable_spec()->set_nan_policy(v1::NAN_POLICY_IGNORE);  // as a server before this rule wrote it
  for (const auto policy : {v1::NAN_POLICY_PROPAGATE, v1::NAN_POLICY_IGNORE}) {
    v1::MergeRequest request;
    *request.mutable_spec() = Header(kOperators, v1::ELEMENT_TYPE_INT32).header().spec();
    request.mutable_spec()->set_nan_policy(policy);
    for (const v1::PartialState& state : states) *request.add_states() = state;
    const auto merged = Merge(service_, request);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->reduction().results(0).int64_value(), 3 * 8192);
  }
}

TEST_F(MergeTest, RefusesStatesThatCannotBe) {
  const std::vector<float> elements(10000, 1);
  v1::MergeRequest good;
  *good.mutable_spec() = Header(kOperators, v1::ELEMENT_TYPE_FLOAT32).header().spec();
  *good.add_states() = Stripe(elements, 0, 4096).state();
  *good.add_states() = Stripe(elements, 4096, 2048).state();
  ASSERT_TRUE(Merge(service_, good).ok());

  const auto with = [&](auto change) {
    v1::MergeRequest request = good;
    change(request);
    return request;
  };
  ExpectMergeError(with([](auto& r) { r.clear_states(); }), "BAD_HEADER");
  ExpectMergeError(with([](auto& r) { r.mutable_spec()->clear_operators(); }), "BAD_HEADER");
  // States of no elements may follow any other state.
  for (const int beyond : {-1, 0, 1}) {
    const auto merged = Merge(service_, with([&](auto& r) {
                                while (r.states_size() < kMaxMergedStates + beyond) {
                                  r.add_states()->set_first_element(6144);
                                }
                              }));
    EXPECT_EQ(kernels::ErrorReason(merged.status()), beyond > 0 ? "BAD_HEADER" : "") << beyond;
  }
  ExpectMergeError(with([](auto& r) { r.mutable_states()->SwapElements(0, 1); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { *r.add_states() = r.states(0); }), "BAD_STATE");
  EXPECT_EQ(
      Merge(service_, with([](auto& r) { r.mutable_states(1)->set_first_element(8192); })).status().message(),
      "the state of 2048 elements from element 8192 on: the nodes of a partial state are not the maximal "
      "subtrees of its range");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_element_count(4095); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_element_count(~std::uint64_t{0}); }),
                   "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_first_element(1); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->set_first_element(~std::uint64_t{1023}); }),
                   "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(1)->set_first_element(4097); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->clear_nodes(); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->clear_range_states(); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->add_range_states(""); }), "BAD_STATE");
  ExpectMergeError(with([](auto& r) { r.mutable_states(0)->mutable_range_states(0)->push_back('x'); }),
                   "BAD_STATE");
  ExpectMergeError(with([](auto& r) {
                     r.mutable_states()->RemoveLast();
                     r.mutable_states(0)->set_element_count(0);
                     r.mutable_states(0)->clear_nodes();
                   }),
                   "BAD_STATE");
  // Rejected before memory is taken for their states: two million nodes are a message of 4 MiB.
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

// A spec of one operator over int32.
v1::ReductionSpec SpecOf(v1::Operator op) { return Header({op}).header().spec(); }

// The spec, changed.
template <class Change>
v1::ReductionSpec With(v1::ReductionSpec spec, Change change) {
  change(spec);
  return spec;
}

// The error for a state of twelve elements that was made for one spec and is merged for another one. These
// states have the same size, and are possible for both specs.
class MergeAsTest : public MergeTest {
 protected:
  v1::MergeRequest MergeOf(const v1::ReductionSpec& made, const v1::ReductionSpec& asked) {
    std::vector<std::int32_t> elements(12);
    std::iota(elements.begin(), elements.end(), 0);
    v1::ReduceRequest header;
    *header.mutable_header()->mutable_spec() = made;
    header.mutable_header()->set_return_state(true);
    const std::uint64_t count = 12 / std::max(1u, made.matrix_shape().rows() * made.matrix_shape().columns());
    const auto reduction = DriveSession(
        service_, pool_, {MessageOf(header), MessageOf(Chunk(elements)), MessageOf(Commit(count, 48))});
    EXPECT_TRUE(reduction.ok()) << reduction.status();
    v1::MergeRequest request;
    *request.mutable_spec() = asked;
    if (reduction.ok()) *request.add_states() = reduction->state();
    return request;
  }
  std::string ReasonOf(const v1::MergeRequest& request) {
    return kernels::ErrorReason(Merge(service_, request).status());
  }
};

TEST_F(MergeAsTest, AnotherSpecIsRefused) {
  const v1::ReductionSpec both = Header({v1::OPERATOR_MIN, v1::OPERATOR_MAX}).header().spec();
  const auto min = SpecOf(v1::OPERATOR_MIN);
  EXPECT_EQ(ReasonOf(MergeOf(both, both)), "");
  EXPECT_EQ(
      ReasonOf(MergeOf(both, With(both, [](auto& spec) { spec.mutable_operators()->SwapElements(0, 1); }))),
      "BAD_STATE");
  EXPECT_EQ(ReasonOf(MergeOf(min, SpecOf(v1::OPERATOR_MAX))), "BAD_STATE");
  EXPECT_EQ(ReasonOf(MergeOf(SpecOf(v1::OPERATOR_FIRST), SpecOf(v1::OPERATOR_LAST))), "BAD_STATE");
  for (const auto type : {v1::ELEMENT_TYPE_UINT32, v1::ELEMENT_TYPE_FLOAT32}) {
    EXPECT_EQ(ReasonOf(MergeOf(min, With(min, [&](auto& spec) { spec.set_element_type(type); }))),
              "BAD_STATE");
  }
  const auto floats =
      With(SpecOf(v1::OPERATOR_SUM), [](auto& spec) { spec.set_element_type(v1::ELEMENT_TYPE_FLOAT32); });
  const auto numbers = With(floats, [](auto& spec) { spec.set_nan_policy(v1::NAN_POLICY_IGNORE); });
  EXPECT_EQ(ReasonOf(MergeOf(numbers, numbers)), "");
  EXPECT_EQ(ReasonOf(MergeOf(numbers, floats)), "BAD_STATE");
  EXPECT_EQ(ReasonOf(MergeOf(floats, numbers)), "BAD_STATE");
}

TEST_F(MergeAsTest, AnotherShapeOrModulusIsRefused) {
  const auto shaped = [](v1::ReductionSpec spec, int rows, int columns) {
    spec.mutable_matrix_shape()->set_rows(rows);
    spec.mutable_matrix_shape()->set_columns(columns);
    return spec;
  };
  const auto max = SpecOf(v1::OPERATOR_MAX);
  EXPECT_EQ(ReasonOf(MergeOf(shaped(max, 2, 2), shaped(max, 2, 2))), "");
  EXPECT_EQ(ReasonOf(MergeOf(shaped(max, 2, 2), shaped(max, 4, 1))), "BAD_STATE");
  EXPECT_EQ(ReasonOf(MergeOf(max, shaped(max, 1, 1))), "BAD_STATE");
  const auto product = shaped(SpecOf(v1::OPERATOR_MATRIX_PRODUCT), 2, 2);
  const auto modulo = [&](int modulus) {
    return With(product, [&](auto& spec) { spec.set_modulus(modulus); });
  };
  EXPECT_EQ(ReasonOf(MergeOf(modulo(7), modulo(7))), "");
  EXPECT_EQ(ReasonOf(MergeOf(modulo(7), modulo(5))), "BAD_STATE");
  EXPECT_EQ(ReasonOf(MergeOf(modulo(7), product)), "BAD_STATE");
  EXPECT_EQ(ReasonOf(MergeOf(product, modulo(7))), "BAD_STATE");
}

TEST_F(MergeAsTest, WhatOnlyValuesDependOnMayDiffer) {
  const auto variance = SpecOf(v1::OPERATOR_VARIANCE);
  EXPECT_EQ(ReasonOf(MergeOf(variance, With(variance, [](auto& spec) { spec.set_ddof(1); }))), "");
  const auto sum = SpecOf(v1::OPERATOR_SUM);
  EXPECT_EQ(ReasonOf(MergeOf(
                sum, With(sum, [](auto& spec) { spec.set_overflow_policy(v1::OVERFLOW_POLICY_WRAP); }))),
            "");
}

TEST_F(MergeAsTest, AStateThatDoesNotSayIsBelieved) {
  const auto min = SpecOf(v1::OPERATOR_MIN);
  v1::MergeRequest request = MergeOf(min, min);
  request.mutable_states(0)->mutable_spec()->add_operators(static_cast<v1::Operator>(99));
  EXPECT_EQ(ReasonOf(request), "BAD_STATE");
  request = MergeOf(min, SpecOf(v1::OPERATOR_MAX));
  request.mutable_states(0)->clear_spec();
  EXPECT_EQ(ReasonOf(request), "");
}

constexpr auto kInt32 = v1::ELEMENT_TYPE_INT32;
constexpr auto kUint32 = v1::ELEMENT_TYPE_UINT32;
constexpr auto kFloat32 = v1::ELEMENT_TYPE_FLOAT32;

// A Merge of the one leaf from element 1024 on, with `count` elements, whose state is claimed to be `state`.
template <class Operator>
v1::MergeRequest Claim(v1::ElementType type, std::uint64_t count, const typename Operator::State& state) {
  v1::MergeRequest request;
  *request.mutable_spec() = Header({OperatorByName(Operator::kName)}, type).header().spec();
  v1::PartialState& claimed = *request.add_states();
  claimed.set_first_element(1024);
  claimed.set_element_count(count);
  if (kernels::AssociativeOperator<Operator>) {
    claimed.add_range_states(&state, sizeof state);
    return request;
  }
  v1::StateNode& node = *claimed.add_nodes();
  node.set_index(1);
  node.add_operator_states(&state, sizeof state);
  return request;
}

TEST_F(MergeTest, RefusesCountsAndIndicesBeyondTheRange) {
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
  EXPECT_EQ(kernels::ErrorReason(Merge(service_, argmax(Outcome::kNoIndex, INT32_MIN)).status()),
            "EMPTY_ARRAY");
  ExpectClaim(false, argmax(Outcome::kNoIndex, 0));
  ExpectClaim(true, argmax(1024, 0));
  ExpectClaim(false, argmax(1024, INT32_MIN));
  ExpectClaim(false, argmax(1024, INT32_MAX));
  using Max = kernels::Max<float, false>;
  ExpectClaim(true, Claim<Max>(kFloat32, 3, INT32_MAX));
  ExpectClaim(false, Claim<Max>(kFloat32, 3, INT32_MAX - 1));
}

TEST_F(MergeTest, RefusesNumbersThatNoElementsGive) {
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

TEST_F(MergeTest, RefusesStatesOfSeveralNumbersThatDoNotFit) {
  using kernels::Moments;
  for (const std::uint64_t count : {2, 3, 4}) {
    ExpectClaim(count == 3, Claim<kernels::Variance<float, false>>(kFloat32, 3, Moments{1, 0, 2, count}));
    ExpectClaim(count == 3, Claim<kernels::Stddev<float, false>>(kFloat32, 3, Moments{1, 0, 2, count}));
    constexpr std::int32_t kOne = 0x3f800000;  // the key of 1.0
    ExpectClaim(count == 3,
                Claim<kernels::Describe<float, false>>(kFloat32, 3, {3, Moments{1, 0, 2, count}, 0, kOne}));
    ExpectClaim(count <= 3, Claim<kernels::MaxSubarraySum<float, false>>(
                                kFloat32, 3, {{0, 0, 0, 0, 1024, 1024 + count, 1027, 1025, 1}}));
  }
  // The keys of infinity, of no float, and of NaN, which would also have to be the smallest element.
  constexpr std::int32_t kInfinity = 0x7f800000;
  for (const std::int32_t key : {kInfinity, INT32_MAX - 1, INT32_MAX}) {
    ExpectClaim(key == kInfinity, Claim<kernels::Minmax<float, false>>(kFloat32, 3, {0, key}));
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
    ExpectClaim(residue == 6, request);
  }
}

}  // namespace
}  // namespace warpfold::server
