// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// States from elsewhere that no elements can give: for every rule that an operator has, one is forged, beside
// the outermost states that elements do give.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/error.h"
#include "kernels/operators/operator_list.h"
#include "kernels/partial_state.h"
#include "tests/kernels/claim.h"

namespace warpfold::kernels {
namespace {

constexpr std::uint64_t kCount = 3;
constexpr std::uint64_t kFirst = 1024;  // of the second leaf, with elements of 4 bytes
constexpr std::uint64_t kEnd = kFirst + kCount;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ReductionSpec Of(const std::string& name, ElementType type) {
  ReductionSpec spec;
  spec.operators = {name};
  spec.element_type = type;
  return spec;
}

ReductionSpec Ignoring(ReductionSpec spec) {
  spec.ignore_nan = true;
  return spec;
}

// The result of the claim that the first kCount elements of the second leaf have this state.
template <class State>
absl::Status Claim(const ReductionSpec& spec, const State& state) {
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  EXPECT_EQ(reduction.operators()[0].state_bytes, sizeof state);
  std::vector<std::byte> states(reduction.node_bytes());
  std::memcpy(states.data(), &state, sizeof state);
  return ClaimOfOneLeaf(reduction, 1, kCount, states);
}

template <class State>
void ExpectTaken(const ReductionSpec& spec, const State& state) {
  const absl::Status status = Claim(spec, state);
  EXPECT_TRUE(status.ok()) << spec.operators[0] << ": " << status;
}

template <class State>
void ExpectRefused(const ReductionSpec& spec, const State& state) {
  EXPECT_EQ(ErrorReason(Claim(spec, state)), "BAD_STATE") << spec.operators[0];
}

TEST(PossibleStatesTest, MomentsCountTheRangeAndDoNotVaryNegatively) {
  for (const char* name : {"variance", "stddev"}) {
    const ReductionSpec spec = Of(name, ElementType::kFloat32);
    ExpectTaken(spec, Moments{1, 0, 2, kCount});
    ExpectTaken(spec, Moments{kNan, kNan, kNan, kCount});
    ExpectRefused(spec, Moments{1, 0, -1, kCount});
    ExpectRefused(spec, Moments{1, 0, 2, kCount - 1});
    ExpectRefused(spec, Moments{1, 0, 2, kCount + 1});
    ExpectTaken(Ignoring(spec), Moments{1, 0, 2, kCount - 1});
    ExpectTaken(Ignoring(spec), Moments{0, 0, 0, 0});
    ExpectRefused(Ignoring(spec), Moments{1, 0, 2, kCount + 1});
    ExpectRefused(Ignoring(spec), Moments{1, 0, -1, kCount});
  }
}

TEST(PossibleStatesTest, MinmaxHasKeys) {
  using State = Minmax<float, false>::State;
  const ReductionSpec spec = Of("minmax", ElementType::kFloat32);
  ExpectTaken(spec, State{0, 0});
  ExpectTaken(spec, State{INT32_MIN, INT32_MAX});  // those of NaN
  ExpectRefused(spec, State{INT32_MIN + 1, 0});
  ExpectRefused(spec, State{0, INT32_MAX - 1});
  ExpectRefused(spec, State{INT32_MAX, INT32_MIN});  // no element at all
  ExpectTaken(Ignoring(spec), State{INT32_MAX, INT32_MIN});
  ExpectRefused(Ignoring(spec), State{INT32_MIN, INT32_MAX});
}

TEST(PossibleStatesTest, DescribeHasPossibleParts) {
  using State = Describe<float, false>::State;
  const ReductionSpec spec = Of("describe", ElementType::kFloat32);
  const Moments moments = {1, 0, 2, kCount};
  constexpr std::int64_t kZero = 0;  // keys
  constexpr std::int64_t kOne = 0x3f800000;
  constexpr std::int64_t kInfinite = 0x7f800000;
  ExpectTaken(spec, State{kCount, moments, kZero, kOne});
  ExpectTaken(spec, State{kCount * (1 + 0x1p-50), moments, kZero, kOne});
  ExpectTaken(spec, State{HUGE_VAL, {kNan, kNan, kNan, kCount}, kZero, kInfinite});
  ExpectTaken(spec, State{kNan, {kNan, kNan, kNan, kCount}, INT32_MIN, INT32_MAX});
  ExpectRefused(spec, State{kCount, {1, 0, 2, kCount + 1}, kZero, kOne});
  ExpectRefused(spec, State{kCount, {1, 0, -2, kCount}, kZero, kOne});
  ExpectRefused(spec, State{kCount, moments, kZero, INT32_MAX - 1});
  ExpectRefused(spec, State{kCount, moments, std::int64_t{1} << 32, kOne});
  ExpectRefused(spec, State{kCount, moments, kZero, std::int64_t{1} << 32});
  ExpectRefused(spec, State{kCount + 1, moments, kZero, kOne});
  ExpectRefused(spec, State{-1, moments, kZero, kOne});
  ExpectRefused(spec, State{kCount - 1, moments, kZero, kOne});  // another mean's

  using Exact = Describe<std::int32_t, false>::State;
  constexpr std::uint64_t kLargestSum = kCount * INT32_MAX;
  const auto squares = [](std::uint64_t each) {
    const Uint128 sum = Uint128{each} * each * kCount;
    return WordPair{{static_cast<std::uint64_t>(sum), static_cast<std::uint64_t>(sum >> 64)}};
  };
  const ReductionSpec spec_of_integers = Of("describe", ElementType::kInt32);
  ExpectTaken(spec_of_integers, Exact{{{{kLargestSum, 0}}, squares(INT32_MAX)}, INT32_MAX, INT32_MAX});
  ExpectRefused(spec_of_integers, Exact{{{{kLargestSum + 1, 0}}, squares(INT32_MAX)}, INT32_MAX, INT32_MAX});
  ExpectRefused(spec_of_integers, Exact{{{{kLargestSum, 0}}, squares(1)}, INT32_MAX, INT32_MAX});
}

TEST(PossibleStatesTest, FirstAndLastArePresentAndNoWiderThanAnElement) {
  using State = First<float, false>::State;
  for (const char* name : {"first", "last"}) {
    const ReductionSpec spec = Of(name, ElementType::kFloat32);
    ExpectTaken(spec, State{UINT32_MAX, 1});
    ExpectRefused(spec, State{std::uint64_t{1} << 32, 1});
    ExpectRefused(spec, State{7, 2});
    ExpectRefused(spec, State{0, 0});
    ExpectTaken(Ignoring(spec), State{0, 0});
    ExpectRefused(Ignoring(spec), State{7, 0});
  }
}

TEST(PossibleStatesTest, SubarraysLieInTheRange) {
  using State = MaxSubarraySum<float, false>::State;
  const ReductionSpec spec = Of("max_subarray_sum", ElementType::kFloat32);
  // Four sums; best_begin, best_end, prefix_end, suffix_begin, present.
  ExpectTaken(spec, State{{0, 0, 0, 0, kFirst, kEnd, kEnd, kFirst, 1}});
  ExpectTaken(spec, State{{0, 0, 0, 0, kFirst + 1, kFirst + 2, kFirst + 1, kEnd - 1, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst - 1, kEnd, kEnd, kFirst, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst, kEnd + 1, kEnd, kFirst, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst + 1, kFirst + 1, kEnd, kFirst, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst, kEnd, kEnd + 1, kFirst, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst, kEnd, kFirst, kFirst, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst, kEnd, kEnd, kFirst - 1, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst, kEnd, kEnd, kEnd, 1}});
  ExpectRefused(spec, State{{0, 0, 0, 0, kFirst, kEnd, kEnd, kFirst, 2}});
  ExpectRefused(spec, State{});
  ExpectTaken(Ignoring(spec), State{});
  ExpectRefused(Ignoring(spec), State{{0, 0, 0, 0, kFirst, kEnd, kEnd, kFirst, 0}});
}

TEST(PossibleStatesTest, AffineMapsHaveResidues) {
  using State = AffineCompose<std::int32_t>::State;
  ReductionSpec spec = Of("affine_compose", ElementType::kInt32);
  spec.shape = {1, 2};
  ExpectTaken(spec, State{{-1, 7}});
  spec.modulus = 7;
  ExpectTaken(spec, State{{6, 6}});
  ExpectRefused(spec, State{{7, 0}});
  ExpectRefused(spec, State{{0, 7}});
  ExpectRefused(spec, State{{0, -1}});
}

TEST(PossibleStatesTest, SumsOfMagnitudesAreBounded) {
  constexpr Uint128 kLargest = std::uint64_t{1} << 31;  // that of INT32_MIN
  ExpectTaken(Of("l1_norm", ElementType::kInt32), kLargest * kCount);
  ExpectRefused(Of("l1_norm", ElementType::kInt32), kLargest * kCount + 1);
  ExpectTaken(Of("l1_norm", ElementType::kUint64), Uint128{UINT64_MAX} * kCount);
  ExpectRefused(Of("l1_norm", ElementType::kUint64), Uint128{UINT64_MAX} * kCount + 1);
  for (const char* name : {"sum_of_squares", "l2_norm"}) {
    ExpectTaken(Of(name, ElementType::kInt32), kLargest * kLargest * kCount);
    ExpectRefused(Of(name, ElementType::kInt32), kLargest * kLargest * kCount + 1);
    ExpectTaken(Of(name, ElementType::kBool), Uint128{kCount});
    ExpectRefused(Of(name, ElementType::kBool), Uint128{kCount + 1});
    constexpr std::uint64_t kTop = kCount << 62;  // 2^126 is the largest square
    ExpectTaken(Of(name, ElementType::kInt64), Uint192{{0, kTop, 0}});
    ExpectRefused(Of(name, ElementType::kInt64), Uint192{{1, kTop, 0}});
    // (2^64 - 1)^2 = 2^128 - 2^65 + 1, three times.
    ExpectTaken(Of(name, ElementType::kUint64), Uint192{{3, UINT64_MAX - 5, 2}});
    ExpectRefused(Of(name, ElementType::kUint64), Uint192{{4, UINT64_MAX - 5, 2}});
  }
  for (const char* name : {"l1_norm", "sum_of_squares", "l2_norm"}) {
    const ReductionSpec spec = Of(name, ElementType::kFloat32);
    for (const ReductionSpec& either : {spec, Ignoring(spec)}) {
      ExpectTaken(either, 0.0);
      ExpectTaken(either, kInfinity);
      ExpectRefused(either, -1.0);
      ExpectRefused(either, -0.0);
    }
    ExpectTaken(spec, kNan);
    ExpectRefused(Ignoring(spec), kNan);
  }
}

TEST(PossibleStatesTest, TheLargestMagnitudeIsAnElements) {
  ExpectTaken(Of("max_abs", ElementType::kInt32), std::uint32_t{1} << 31);
  ExpectRefused(Of("max_abs", ElementType::kInt32), (std::uint32_t{1} << 31) + 1);
  ExpectTaken(Of("max_abs", ElementType::kUint32), UINT32_MAX);
  ExpectTaken(Of("max_abs", ElementType::kBool), std::uint8_t{1});
  ExpectRefused(Of("max_abs", ElementType::kBool), std::uint8_t{2});
  const ReductionSpec spec = Of("max_abs", ElementType::kFloat32);
  const auto infinity = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
  constexpr std::uint32_t kLargestBits = INT32_MAX;  // that of NaN
  for (const ReductionSpec& either : {spec, Ignoring(spec)}) {
    ExpectTaken(either, infinity);
    ExpectRefused(either, infinity + 1);
    ExpectRefused(either, std::bit_cast<std::uint32_t>(-1.0f));
  }
  ExpectTaken(spec, kLargestBits);
  ExpectRefused(Ignoring(spec), kLargestBits);
}

TEST(PossibleStatesTest, BitsOfBoolAreOne) {
  for (const char* name : {"bit_and", "bit_or", "bit_xor"}) {
    ExpectTaken(Of(name, ElementType::kBool), std::uint8_t{1});
    ExpectRefused(Of(name, ElementType::kBool), std::uint8_t{2});
    ExpectTaken(Of(name, ElementType::kInt8), std::uint8_t{0xff});
  }
}

TEST(PossibleStatesTest, LogsumexpCountsItsLargest) {
  using State = Logsumexp<float, false>::State;
  const ReductionSpec spec = Of("logsumexp", ElementType::kFloat32);
  for (const ReductionSpec& either : {spec, Ignoring(spec)}) {
    ExpectTaken(either, State{-1, 1});
    ExpectTaken(either, State{-kInfinity, kCount});
    ExpectRefused(either, State{-1, 0.5});
    ExpectRefused(either, State{-1, -1});
    ExpectRefused(either, State{-1, 0});
    ExpectRefused(either, State{-1, kNan});
    ExpectRefused(either, State{kNan, 1});
  }
  ExpectTaken(spec, State{kNan, kNan});
  ExpectRefused(Ignoring(spec), State{kNan, kNan});
  ExpectRefused(spec, State{-kInfinity, 0});
  ExpectTaken(Ignoring(spec), State{-kInfinity, 0});
}

}  // namespace
}  // namespace warpfold::kernels
