// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of segments are handed on only as far as they fit the request and each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "client/calls/segment_check.h"
#include "client/calls/segment_stream.h"
#include "client/calls/wire.h"
#include "client/error.h"

namespace warpfold {
namespace {

using Response = v1::ReduceSegmentsResponse;

v1::ReductionSpec Spec() {
  v1::ReductionSpec spec;
  spec.add_operators(v1::OPERATOR_SUM);
  spec.add_operators(v1::OPERATOR_ARGMAX);
  spec.set_element_type(v1::ELEMENT_TYPE_INT32);
  return spec;
}

void AddColumn(Response& response, v1::Operator op, v1::SegmentContent content, v1::SegmentValueKind kind) {
  v1::SegmentColumn& column = *response.mutable_layout()->add_columns();
  column.set_operator_(op);
  column.set_content(content);
  column.set_kind(kind);
}

Response Layout() {
  Response response;
  AddColumn(response, v1::OPERATOR_SUM, v1::SEGMENT_CONTENT_VALUE, v1::SEGMENT_VALUE_KIND_INT64);
  AddColumn(response, v1::OPERATOR_ARGMAX, v1::SEGMENT_CONTENT_VALUE, v1::SEGMENT_VALUE_KIND_INT64);
  AddColumn(response, v1::OPERATOR_ARGMAX, v1::SEGMENT_CONTENT_INDEX, v1::SEGMENT_VALUE_KIND_UINT64);
  return response;
}

Response Results(std::uint64_t first, std::uint64_t count) {
  Response response;
  response.mutable_results()->set_first_segment(first);
  response.mutable_results()->set_segment_count(count);
  response.mutable_results()->set_values(std::string(count * 3 * 8, '\0'));
  return response;
}

Response Summary(std::uint64_t segments, std::uint64_t elements) {
  Response response;
  response.mutable_summary()->set_segment_count(segments);
  response.mutable_summary()->set_element_count(elements);
  return response;
}

// Sets the value at this row of a column.
void Set(Response& response, std::size_t column, std::uint64_t row, std::uint64_t value) {
  v1::SegmentResults& results = *response.mutable_results();
  const std::size_t at = column * results.segment_count() + row;
  std::memcpy(results.mutable_values()->data() + at * sizeof(value), &value, sizeof(value));
}

Response Failing(Response results, std::uint64_t segment, std::uint32_t op,
                 v1::SegmentErrorReason reason = v1::SEGMENT_ERROR_REASON_OVERFLOW) {
  const std::uint64_t row = segment - results.results().first_segment();
  const bool has_row = row < results.results().segment_count();
  if (op == 1 && has_row) Set(results, 2, row, SegmentColumn::kNoIndex);
  v1::SegmentError& error = *results.mutable_results()->add_errors();
  error.set_segment(segment);
  error.set_operator_position(op);
  error.set_reason(reason);
  return results;
}

struct Heard {
  absl::Status status;
  std::vector<std::size_t> columns = {};  // at each visit
  std::uint64_t segments = 0;
  std::vector<SegmentFailure> failures;
};

// What a client gets from these responses to a request of 5 segments and 10 elements.
Heard Hear(const std::vector<Response>& responses,
           const std::optional<ResultsReference>& memory = std::nullopt) {
  Heard heard;
  const v1::ReductionSpec spec = Spec();
  const SegmentVisitor visitor = [&](const SegmentResults& results) {
    heard.columns.push_back(results.columns.size());
    heard.segments += results.segment_count;
    heard.failures.insert(heard.failures.end(), results.failures.begin(), results.failures.end());
  };
  const SegmentCut cut = {.length = 2, .results = memory};
  SegmentAnswer answer(spec, visitor, 10, cut);
  for (const Response& response : responses) {
    heard.status = answer.Add(Serialize(response));
    if (!heard.status.ok()) return heard;
  }
  heard.status = answer.Finish().status();
  return heard;
}

TEST(SegmentAnswerTest, AWholeAnswer) {
  const Heard heard = Hear({Layout(), Results(0, 3), Results(3, 2), Summary(5, 10)});
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.segments, 5u);
}

// Values that go to memory do not come, and others do.
TEST(SegmentAnswerTest, ValuesThatAreElsewhere) {
  Response without = Failing(Results(0, 5), 3, 0);
  without.mutable_results()->clear_values();
  Response summary = Summary(5, 10);
  summary.mutable_summary()->set_error_count(1);
  const Heard heard = Hear({Layout(), without, summary}, ResultsReference{"token"});
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.segments, 5u);
  EXPECT_EQ(heard.failures.size(), 1u);
  EXPECT_TRUE(absl::IsInternal(Hear({Layout(), Results(0, 5)}, ResultsReference{"token"}).status));
  EXPECT_TRUE(absl::IsInternal(Hear({Layout(), without}).status));
}

TEST(SegmentAnswerTest, TheColumnsAreToldBeforeTheFirstResults) {
  EXPECT_THAT(Hear({Layout()}).columns, testing::ElementsAre(3));
  EXPECT_THAT(Hear({Layout(), Results(0, 3)}).columns, testing::ElementsAre(3, 3));
}

TEST(SegmentAnswerTest, AnAnswerWithoutItsSummaryIsNone) {
  EXPECT_THAT(Hear({Layout(), Results(0, 5)}).status.message(), testing::HasSubstr("no summary"));
}

TEST(SegmentAnswerTest, SegmentsWithoutResults) {
  const Response first = Failing(Failing(Results(0, 3), 1, 0), 1, 1, v1::SEGMENT_ERROR_REASON_EMPTY_ARRAY);
  Response summary = Summary(5, 10);
  summary.mutable_summary()->set_error_count(3);
  const Heard heard = Hear({Layout(), first, Failing(Results(3, 2), 3, 0), summary});
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  using Reason = SegmentFailure::Reason;
  const std::vector<SegmentFailure> expected = {
      {1, 0, Reason::kOverflow}, {1, 1, Reason::kEmptyArray}, {3, 0, Reason::kOverflow}};
  EXPECT_EQ(heard.failures, expected);
}

TEST(SegmentAnswerTest, ErrorsAreInOrderAndHaveAReason) {
  const std::vector<Response> bad = {
      Failing(Failing(Results(0, 5), 1, 0), 1, 0),
      Failing(Failing(Results(0, 5), 1, 1), 1, 0),
      Failing(Failing(Results(0, 5), 2, 0), 1, 0),
      Failing(Results(0, 5), 1, 0, v1::SEGMENT_ERROR_REASON_UNSPECIFIED),
      Failing(Results(0, 5), 1, 0, static_cast<v1::SegmentErrorReason>(3)),
  };
  for (const Response& results : bad) {
    Response summary = Summary(5, 10);
    summary.mutable_summary()->set_error_count(results.results().errors_size());
    EXPECT_TRUE(absl::IsInternal(Hear({Layout(), results, summary}).status))
        << results.results().ShortDebugString();
  }
}

TEST(SegmentAnswerTest, ColumnsAreThoseOfTheOperators) {
  using Change = void (*)(google::protobuf::RepeatedPtrField<v1::SegmentColumn> & columns);
  const std::vector<Change> changes = {
      [](auto& columns) { columns.at(0).set_kind(v1::SEGMENT_VALUE_KIND_DOUBLE); },
      [](auto& columns) { columns.at(1).set_kind(v1::SEGMENT_VALUE_KIND_UINT64); },
      [](auto& columns) { columns.at(2).set_kind(v1::SEGMENT_VALUE_KIND_INT64); },
      [](auto& columns) { columns.at(0).set_content(v1::SEGMENT_CONTENT_INDEX); },
      [](auto& columns) { columns.at(2).set_content(v1::SEGMENT_CONTENT_END_INDEX); },
      [](auto& columns) { columns.at(0).set_field("sum"); },
      [](auto& columns) { columns.RemoveLast(); },
      [](auto& columns) { *columns.Add() = v1::SegmentColumn(columns.at(2)); },
      [](auto& columns) { *columns.Add() = v1::SegmentColumn(columns.at(0)); },
      [](auto& columns) { columns.SwapElements(1, 2); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Response layout = Layout();
    changes[i](*layout.mutable_layout()->mutable_columns());
    // With results that have these columns.
    Response results = Results(0, 5);
    results.mutable_results()->mutable_values()->resize(5 * 8 * layout.layout().columns_size());
    EXPECT_TRUE(absl::IsInternal(Hear({layout, results, Summary(5, 10)}).status)) << "change " << i;
  }
}

// The status of a response whose last segment has this value, index, and error of argmax if it `fails`.
absl::Status HearLast(std::uint64_t value, std::uint64_t index, bool fails, const SegmentCut& cut) {
  const v1::ReductionSpec spec = Spec();
  const SegmentVisitor visitor = [](const SegmentResults&) {};
  SegmentAnswer answer(spec, visitor, 10, cut);
  EXPECT_TRUE(answer.Add(Serialize(Layout())).ok());
  EXPECT_TRUE(answer.Add(Serialize(Results(0, 3))).ok());
  Response last = Results(3, 2);
  if (fails) last = Failing(last, 4, 1);
  Set(last, 1, 1, value);
  Set(last, 2, 1, index);
  return answer.Add(Serialize(last));
}

TEST(SegmentAnswerTest, IndicesAreWithinTheirSegments) {
  const std::vector<std::uint64_t> lengths = {1, 2, 2, 1, 4};
  for (const SegmentCut& cut : {SegmentCut{.length = 2}, SegmentCut{.lengths = lengths}}) {
    const std::uint64_t length = cut.length != 0 ? cut.length : lengths.back();
    EXPECT_TRUE(HearLast(7, length - 1, false, cut).ok());
    EXPECT_TRUE(absl::IsInternal(HearLast(7, length, false, cut)));
    EXPECT_TRUE(absl::IsInternal(HearLast(7, 12345, false, cut)));
    EXPECT_TRUE(absl::IsInternal(HearLast(7, SegmentColumn::kNoIndex, false, cut)));
  }
}

TEST(SegmentAnswerTest, ASegmentThatFailsHasNeitherValueNorIndex) {
  const SegmentCut cut = {.length = 2};
  EXPECT_TRUE(HearLast(0, SegmentColumn::kNoIndex, true, cut).ok());
  EXPECT_TRUE(absl::IsInternal(HearLast(7, SegmentColumn::kNoIndex, true, cut)));
  EXPECT_TRUE(absl::IsInternal(HearLast(0, 1, true, cut)));
}

// The status of a response for one segment of 4 elements with these values, a column each.
absl::Status HearOne(v1::Operator op, v1::ElementType type, const std::vector<std::uint64_t>& values) {
  v1::ReductionSpec spec;
  spec.add_operators(op);
  spec.set_element_type(type);
  const SegmentVisitor visitor = [](const SegmentResults&) {};
  const SegmentCut cut = {.length = 4};
  SegmentAnswer answer(spec, visitor, 4, cut);
  Response layout;
  *layout.mutable_layout() = LayoutOf(spec);
  EXPECT_TRUE(answer.Add(Serialize(layout)).ok());
  Response results;
  results.mutable_results()->set_segment_count(1);
  results.mutable_results()->set_values(values.data(), values.size() * sizeof(values[0]));
  return answer.Add(Serialize(results));
}

TEST(SegmentAnswerTest, ARangeHasElementsOfItsSegment) {
  constexpr auto kOp = v1::OPERATOR_MAX_SUBARRAY_SUM;
  constexpr auto kType = v1::ELEMENT_TYPE_INT32;
  EXPECT_TRUE(HearOne(kOp, kType, {7, 3, 4}).ok());
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, kType, {7, 3, 5})));
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, kType, {7, 4, 4})));
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, kType, {7, 2, 2})));
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, kType, {7, 3, 2})));
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, kType, {7, 3, SegmentColumn::kNoIndex})));
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, kType, {7, SegmentColumn::kNoIndex, 4})));
}

TEST(SegmentAnswerTest, OnlyASumThatIsNaNLacksItsRange) {
  constexpr auto kOp = v1::OPERATOR_MAX_SUBARRAY_SUM;
  constexpr std::uint64_t kNone = SegmentColumn::kNoIndex;
  const auto nan = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
  const auto one = std::bit_cast<std::uint64_t>(1.0);
  EXPECT_TRUE(HearOne(kOp, v1::ELEMENT_TYPE_FLOAT32, {nan, kNone, kNone}).ok());
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, v1::ELEMENT_TYPE_FLOAT32, {nan, 0, 1})));
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, v1::ELEMENT_TYPE_FLOAT32, {one, kNone, kNone})));
  EXPECT_TRUE(absl::IsInternal(HearOne(kOp, v1::ELEMENT_TYPE_INT64, {nan, kNone, kNone})));
}

TEST(SegmentAnswerTest, ABoolIsZeroOrOne) {
  EXPECT_TRUE(HearOne(v1::OPERATOR_ALL, v1::ELEMENT_TYPE_INT32, {1}).ok());
  EXPECT_TRUE(absl::IsInternal(HearOne(v1::OPERATOR_ALL, v1::ELEMENT_TYPE_INT32, {2})));
}

// Whole arrays are checked in the same way.
TEST(SegmentAnswerTest, ElementsAreOfTheArraysType) {
  const auto wide = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  EXPECT_TRUE(HearOne(v1::OPERATOR_MAX, v1::ELEMENT_TYPE_INT8, {wide(-128)}).ok());
  EXPECT_TRUE(absl::IsInternal(HearOne(v1::OPERATOR_MAX, v1::ELEMENT_TYPE_INT8, {wide(-129)})));
  EXPECT_TRUE(absl::IsInternal(HearOne(v1::OPERATOR_MAX, v1::ELEMENT_TYPE_INT8, {128})));
  EXPECT_TRUE(HearOne(v1::OPERATOR_SUM, v1::ELEMENT_TYPE_INT8, {128}).ok());
  EXPECT_TRUE(HearOne(v1::OPERATOR_MAX_ABS, v1::ELEMENT_TYPE_INT8, {128}).ok());
  EXPECT_TRUE(absl::IsInternal(HearOne(v1::OPERATOR_MAX_ABS, v1::ELEMENT_TYPE_INT8, {129})));
  EXPECT_TRUE(HearOne(v1::OPERATOR_MINMAX, v1::ELEMENT_TYPE_UINT16, {0, 65'535}).ok());
  EXPECT_TRUE(absl::IsInternal(HearOne(v1::OPERATOR_MINMAX, v1::ELEMENT_TYPE_UINT16, {0, 65'536})));
  EXPECT_TRUE(absl::IsInternal(HearOne(v1::OPERATOR_ARGMIN, v1::ELEMENT_TYPE_UINT16, {65'536, 0})));
}

TEST(SegmentAnswerTest, AnswersThatContradictThemselves) {
  Response short_values = Results(0, 5);
  short_values.mutable_results()->mutable_values()->pop_back();
  Response one_error = Summary(5, 10);
  one_error.mutable_summary()->set_error_count(1);
  const Response bad_error = Failing(Results(0, 5), 5, 0);
  const Response early_error = Failing(Results(3, 2), 2, 0);
  const Response bad_operator = Failing(Results(0, 5), 0, 2);
  const Response uncounted = Failing(Results(0, 5), 0, 0);
  Response other = Layout();
  other.mutable_layout()->mutable_columns(0)->set_operator_(v1::OPERATOR_MAX);
  Response fewer = Layout();
  fewer.mutable_layout()->mutable_columns()->RemoveLast();
  fewer.mutable_layout()->mutable_columns()->RemoveLast();
  Response unknown = Layout();
  unknown.mutable_layout()->mutable_columns(1)->set_kind(v1::SEGMENT_VALUE_KIND_UNSPECIFIED);
  const std::vector<std::vector<Response>> bad = {
      {},
      {Layout()},
      {Results(0, 5), Summary(5, 10)},
      {Layout(), Layout()},
      {Layout(), Response()},
      {Layout(), Results(0, 3), Results(4, 2)},
      {Layout(), Results(0, 3), Results(3, 0)},
      {Layout(), Results(0, 5)},
      {Layout(), Results(0, 4), Summary(4, 10)},
      {Layout(), Results(0, 5), Summary(5, 9)},
      {Layout(), Results(0, 5), Summary(4, 10)},
      {Layout(), Results(0, 5), Summary(5, 10), Results(5, 1)},
      {Layout(), short_values, Summary(5, 10)},
      {Layout(), bad_error, one_error},
      {Layout(), Results(0, 3), early_error, one_error},
      {Layout(), bad_operator, one_error},
      {Layout(), uncounted, Summary(5, 10)},
      {other},
      {fewer},
      {unknown},
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(Hear(bad[i]).status.code(), absl::StatusCode::kInternal) << "answer " << i;
  }
}

TEST(SegmentAnswerTest, MoreResultsThanSegmentsAreRefusedAtOnce) {
  for (const std::vector<Response>& responses : {std::vector{Layout(), Results(0, 3), Results(3, 3)},
                                                 std::vector{Layout(), Results(0, 5), Results(5, 1)},
                                                 std::vector{Layout(), Results(0, std::uint64_t{1} << 20)}}) {
    const Heard heard = Hear(responses);
    EXPECT_THAT(heard.status.message(), testing::HasSubstr("more results than segments"));
    EXPECT_LE(heard.segments, 5u);
  }
}

TEST(SegmentRowTest, ARowIsWhatAnArrayAnswers) {
  using Column = SegmentColumn;
  const std::vector<Column> columns = {{"sum", Column::Content::kValue, "", Column::Kind::kDouble},
                                       {"all", Column::Content::kValue, "", Column::Kind::kBool},
                                       {"argmax", Column::Content::kValue, "", Column::Kind::kInt64},
                                       {"argmax", Column::Content::kIndex, "", Column::Kind::kUint64},
                                       {"minmax", Column::Content::kValue, "min", Column::Kind::kUint64},
                                       {"minmax", Column::Content::kValue, "max", Column::Kind::kUint64}};
  const std::uint64_t half = std::bit_cast<std::uint64_t>(0.5);
  const std::vector<std::uint64_t> values = {half, half, 1, 0, ~std::uint64_t{0}, 7, 3, 4, 10, 11, 20, 21};
  const std::vector<SegmentFailure> failures = {{100, 1, SegmentFailure::Reason::kOverflow},
                                                {101, 2, SegmentFailure::Reason::kOverflow},
                                                {101, 3, SegmentFailure::Reason::kEmptyArray}};
  const SegmentResults results = {
      .first_segment = 100, .segment_count = 2, .columns = columns, .values = values, .failures = failures};
  const std::vector<OperatorResult> first = results.Row(0);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first[0].name, "sum");
  EXPECT_EQ(*first[0].As<double>(), 0.5);
  EXPECT_EQ(first[1].status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(*first[2].As<std::int64_t>(), -1);
  EXPECT_EQ(first[2].index, 3u);
  EXPECT_EQ(std::get<Fields>(first[3].value),
            (Fields{{"min", Scalar(std::uint64_t{10})}, {"max", Scalar(std::uint64_t{20})}}));
  const std::vector<OperatorResult> second = results.Row(1);
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(*second[1].As<bool>(), false);
  EXPECT_EQ(second[2].status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(second[3].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(second[3].name, "minmax");
  EXPECT_EQ(GetErrorInfo(first[1].status)->metadata.at("operator"), "all");
  EXPECT_EQ(GetErrorInfo(second[3].status)->metadata.at("operator"), "minmax");

  // A segment with a NaN has a value, and no first index.
  const std::vector<Column> bounds = {
      {"max_subarray_sum", Column::Content::kValue, "", Column::Kind::kDouble},
      {"max_subarray_sum", Column::Content::kIndex, "", Column::Kind::kUint64},
      {"max_subarray_sum", Column::Content::kEndIndex, "", Column::Kind::kUint64}};
  const std::vector<std::uint64_t> none = {half, Column::kNoIndex, Column::kNoIndex};
  const OperatorResult row =
      SegmentResults{.segment_count = 1, .columns = bounds, .values = none, .failures = {}}.Row(0).front();
  EXPECT_EQ(*row.As<double>(), 0.5);
  EXPECT_FALSE(row.index.has_value() || row.end_index.has_value());

  SegmentTable::Column column;
  column.bits = {half, 1};
  column.kind = Column::Kind::kDouble;
  EXPECT_EQ(column.At(0), Scalar(0.5));
  column.kind = Column::Kind::kBool;
  EXPECT_EQ(column.At(1), Scalar(true));
  column.kind = Column::Kind::kInt64;
  EXPECT_EQ(column.At(1), Scalar(std::int64_t{1}));
}

}  // namespace
}  // namespace warpfold
