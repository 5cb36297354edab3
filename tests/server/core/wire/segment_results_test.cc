// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of more segments than fit in one message: each has its row and its errors, once and in its message.
#include "server/core/wire/segment_results.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/core/limits.h"
#include "tests/server/drive_segments.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kFirst = 7;
constexpr std::uint64_t kRows = kMaxResultBytes / 8;  // of a message, if each has one value

// Row i has the value i.
kernels::SegmentsResult ResultOf(const std::vector<std::uint64_t>& values,
                                 const std::vector<std::uint64_t>& failing) {
  kernels::SegmentsResult result = {.segment_count = values.size(), .values = values};
  for (const std::uint64_t segment : failing) {
    result.errors.push_back({.segment = segment, .op = 0, .error = kernels::Outcome::Error::kOverflow});
  }
  return result;
}

TEST(SegmentResultsTest, EveryRowAndErrorIsInItsMessage) {
  const SegmentResults results(PlanFromProto(SegmentsHeader({v1::OPERATOR_SUM}).spec()).value(), false);
  ASSERT_EQ(results.row_bytes(), 8u);
  for (const std::uint64_t count : {kRows - 1, kRows, kRows + 1, 2 * kRows, 2 * kRows + 3}) {
    SCOPED_TRACE(count);
    std::vector<std::uint64_t> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = i;
    std::vector<std::uint64_t> failing;
    for (const std::uint64_t segment :
         {std::uint64_t{0}, kRows - 1, kRows, kRows + 1, 2 * kRows - 1, 2 * kRows}) {
      if (segment < count) failing.push_back(segment);
    }
    const std::vector<std::string> messages = results.Encode(kFirst, ResultOf(values, failing), true);
    EXPECT_EQ(messages.size(), (count + kRows - 1) / kRows);
    std::uint64_t next = 0;
    std::vector<std::uint64_t> failed;
    for (const std::string& message : messages) {
      v1::ReduceSegmentsResponse response;
      ASSERT_TRUE(response.ParseFromString(message));
      const v1::SegmentResults& part = response.results();
      ASSERT_EQ(part.first_segment(), kFirst + next);
      ASSERT_EQ(part.values().size(), part.segment_count() * 8);
      ASSERT_LE(next + part.segment_count(), count);
      EXPECT_EQ(part.values(),
                std::string(reinterpret_cast<const char*>(&values[next]), part.values().size()));
      for (const v1::SegmentError& error : part.errors()) {
        EXPECT_GE(error.segment(), part.first_segment());
        EXPECT_LT(error.segment(), part.first_segment() + part.segment_count());
        failed.push_back(error.segment() - kFirst);
      }
      next += part.segment_count();
    }
    EXPECT_EQ(next, count);
    EXPECT_EQ(failed, failing);
  }
}

// Values that are elsewhere do not split them; errors do, so that no message is too large.
TEST(SegmentResultsTest, MessagesWithoutValues) {
  const SegmentResults results(PlanFromProto(SegmentsHeader({v1::OPERATOR_SUM}).spec()).value(), true);
  const std::vector<std::uint64_t> values(5 * kRows);
  for (const std::vector<std::uint64_t>& failing :
       {std::vector<std::uint64_t>(), std::vector<std::uint64_t>{7, 2 * kRows}}) {
    const std::vector<std::string> messages = results.Encode(kFirst, ResultOf(values, failing), false);
    EXPECT_EQ(messages.size(), failing.empty() ? 1 : 5);
    std::uint64_t next = 0;
    int errors = 0;
    for (const std::string& message : messages) {
      v1::ReduceSegmentsResponse response;
      ASSERT_TRUE(response.ParseFromString(message));
      EXPECT_EQ(response.results().first_segment(), kFirst + next);
      EXPECT_EQ(response.results().values(), "");
      next += response.results().segment_count();
      errors += response.results().errors_size();
    }
    EXPECT_EQ(next, values.size());
    EXPECT_EQ(errors, static_cast<int>(failing.size()));
  }
}

// This is used to count the bytes that may wait for the client.
TEST(SegmentResultsTest, NoSegmentTakesMoreBytesThanWasSaid) {
  constexpr std::uint64_t kLast = std::uint64_t{1} << 63;
  constexpr std::uint64_t kFew = 1000;
  const SegmentResults results(
      PlanFromProto(SegmentsHeader({v1::OPERATOR_MIN, v1::OPERATOR_MAX}).spec()).value(), true);
  const std::vector<std::uint64_t> values(2 * kFew);
  kernels::SegmentsResult result = {.segment_count = kFew, .values = values};
  for (std::uint64_t i = 0; i < kFew; ++i) {
    for (const std::size_t op : {0, 1}) {
      result.errors.push_back({.segment = i, .op = op, .error = kernels::Outcome::Error::kEmpty});
    }
  }
  std::size_t bytes = 0;
  for (const std::string& message : results.Encode(kLast, result, true)) bytes += message.size();
  constexpr std::size_t kOfMessages = 100;  // once for each
  EXPECT_LE(bytes, kFew * results.most_bytes_of_segment() + kOfMessages);
  EXPECT_GT(bytes, kFew * results.row_bytes() * 2);
}

// Of fewer bytes, more segments can be reduced at once.
TEST(SegmentResultsTest, OperatorsThatCannotFailNeedNoBytesForErrors) {
  const auto needs_bytes_for_errors = [](const v1::ReductionSpec& spec, bool may_be_empty) {
    const SegmentResults results(PlanFromProto(spec).value(), may_be_empty);
    return results.most_bytes_of_segment() > results.row_bytes();
  };
  const v1::ReductionSpec max = SegmentsHeader({v1::OPERATOR_MAX}).spec();
  EXPECT_FALSE(needs_bytes_for_errors(max, false));
  EXPECT_TRUE(needs_bytes_for_errors(max, true));
  v1::ReductionSpec sum = SegmentsHeader({v1::OPERATOR_SUM}).spec();
  EXPECT_TRUE(needs_bytes_for_errors(sum, false));
  sum.set_overflow_policy(v1::OVERFLOW_POLICY_WRAP);
  EXPECT_FALSE(needs_bytes_for_errors(sum, true));
}

// Short arrays of extreme elements, zeros and NaN.
std::vector<std::string> ExtremeArrays(const kernels::ReductionPlan& reduction, bool may_be_empty) {
  const bool is_bool = reduction.spec().element_type == kernels::ElementType::kBool;
  const std::string bytes = is_bool ? std::string("\0\1", 2) : std::string("\0\1\x7f\x80\xff", 5);
  std::vector<std::string> arrays(may_be_empty ? 1 : 0);
  for (const char byte : bytes) {
    for (const std::size_t count : {1, 100}) arrays.emplace_back(count * reduction.element_bytes(), byte);
  }
  return arrays;
}

TEST(SegmentResultsTest, OperatorsThatFailHaveBytesForErrors) {
  int failures = 0;
  const auto check = [&failures](const kernels::ReductionSpec& spec, bool may_be_empty) {
    const absl::StatusOr<kernels::ReductionPlan> reduction = kernels::ReductionPlan::Create(spec);
    if (!reduction.ok()) return;  // the operator does not take the type or the policies
    const SegmentResults results(*reduction, may_be_empty);
    for (const std::string& array : ExtremeArrays(*reduction, may_be_empty)) {
      if (results.RowOf(kernels::ReduceOnHost(*reduction, 0, AsBytes(array))).errors.empty()) continue;
      ++failures;
      EXPECT_GT(results.most_bytes_of_segment(), results.row_bytes());
    }
  };
  for (const absl::string_view name : kernels::OperatorNames()) {
    for (int type = 0; type < kElementTypeCount; ++type) {
      for (int policies = 0; policies < 8; ++policies) {
        SCOPED_TRACE(testing::Message() << name << " of type " << type << ", policies " << policies);
        kernels::ReductionSpec spec;
        spec.operators = {std::string(name)};
        spec.element_type = ElementTypeAt(type);
        spec.ignore_nan = (policies & 1) != 0;
        spec.wrap_overflow = (policies & 2) != 0;
        check(spec, /*may_be_empty=*/(policies & 4) != 0);
      }
    }
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace warpfold::server
