// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams of segments that contradict themselves, or ask for too much, are rejected.
#include <gmock/gmock.h>

#include "kernels/error.h"
#include "tests/server/core/calls/segments_fixture.h"

namespace warpfold::server {
namespace {

using kernels::ErrorReason;

TEST_F(SegmentsTest, LengthsThatDoNotFit) {
  const SegmentedArray array = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT32, {3, 4, 5});
  const std::vector<v1::ReduceSegmentsRequest> good = array.Requests({}, 2);
  ASSERT_EQ(ReasonOf(good), "");
  // header, 2 lengths, elements, 1 length, elements, commit
  ASSERT_EQ(good.size(), 6u);
  auto late = good;
  std::swap(late[1], late[2]);
  EXPECT_EQ(ReasonOf(late), "BAD_LENGTHS");
  auto missing = good;
  missing.erase(missing.begin() + 3);
  EXPECT_EQ(ReasonOf(missing), "BAD_LENGTHS");
  auto too_many = good;
  too_many.insert(too_many.begin() + 3, too_many[3]);
  EXPECT_EQ(ReasonOf(too_many), "COUNT_MISMATCH");
  auto too_few_elements = good;
  too_few_elements.erase(too_few_elements.begin() + 4);
  EXPECT_EQ(ReasonOf(too_few_elements), "COUNT_MISMATCH");
  auto half = good;
  half[1].mutable_lengths()->mutable_lengths()->pop_back();
  EXPECT_EQ(ReasonOf(half), "BAD_LENGTHS");
  auto behind = good;
  behind.push_back(behind[3]);
  EXPECT_EQ(ReasonOf(behind), "BAD_ORDER");
  auto first = good;
  first.erase(first.begin());
  EXPECT_EQ(ReasonOf(first), "BAD_ORDER");
  auto huge = good;
  huge[1].mutable_lengths()->mutable_lengths()->assign(16, '\xff');
  EXPECT_EQ(ReasonOf(huge), "ARRAY_TOO_LARGE");
  huge[0].mutable_header()->set_expected_element_count(12);
  EXPECT_EQ(ReasonOf(huge), "COUNT_MISMATCH");
  auto counted = good;
  counted[0].mutable_header()->set_expected_segment_count(2);
  EXPECT_EQ(ReasonOf(counted), "COUNT_MISMATCH");
  counted[0].mutable_header()->set_expected_segment_count(4);
  EXPECT_EQ(ReasonOf(counted), "COUNT_MISMATCH");
  counted[0].mutable_header()->set_expected_segment_count(3);
  counted[0].mutable_header()->set_expected_element_count(12);
  EXPECT_EQ(ReasonOf(counted), "");
  // Before the commit.
  auto rows = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT8, {2, 2, 2}).Requests();
  rows[0].mutable_header()->set_segment_length(2);
  rows.erase(rows.begin() + 1);  // the lengths
  rows.pop_back();
  rows[0].mutable_header()->set_expected_segment_count(2);
  EXPECT_EQ(ReasonOf(rows), "COUNT_MISMATCH");
  for (const int beyond : {-1, 0, 1}) {
    auto far_ahead = good;
    far_ahead[1].mutable_lengths()->set_lengths(std::string((kMaxLengthsAhead + beyond) * 8, '\0'));
    EXPECT_EQ(ReasonOf(far_ahead) == "TOO_MANY_LENGTHS", beyond > 0) << beyond;
  }
  // A segment that has begun is no longer ahead of its elements.
  auto begun = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT8, {2}).Requests();
  begun[1].mutable_lengths()->set_lengths(std::string("\x02\0\0\0\0\0\0\0", 8) +
                                          std::string((kMaxLengthsAhead - 1) * 8, '\0'));
  begun[2].mutable_chunk()->set_data("x");
  for (const std::size_t more : {1, 2}) {
    auto further = begun;
    further.insert(further.end() - 1, begun[1]);
    (further.end() - 2)->mutable_lengths()->set_lengths(std::string(more * 8, '\0'));
    EXPECT_EQ(ReasonOf(further), more > 1 ? "TOO_MANY_LENGTHS" : "COUNT_MISMATCH")
        << "the array is cut short";
  }
  auto unneeded = good;
  unneeded[0].mutable_header()->set_segment_length(3);
  EXPECT_EQ(ReasonOf(unneeded), "BAD_LENGTHS");
}

// An array of one-byte elements may have as many segments as bytes; empty ones must not come endlessly
// either.
TEST_F(SegmentsTest, AStreamHasAsManyLengthsAsBytes) {
  constexpr std::uint64_t kMost = 1000;
  Service small(*backend_, Limits{.max_stream_bytes = kMost}, [] { return absl::UnixEpoch(); });
  const auto reason_of = [&](const std::vector<std::uint64_t>& lengths) {
    const SegmentedArray array = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT8, lengths);
    return ErrorReason(DriveSegments(small, pool_, array.Requests()).status());
  };
  for (const std::uint64_t length : {0, 1}) {
    for (const std::uint64_t count : {kMost - 1, kMost}) {
      EXPECT_EQ(reason_of(std::vector<std::uint64_t>(count, length)), "");
    }
    EXPECT_EQ(reason_of(std::vector<std::uint64_t>(kMost + 1, length)), "ARRAY_TOO_LARGE");
  }
}

TEST_F(SegmentsTest, CommitsThatDoNotFit) {
  const SegmentedArray ragged = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT32, {3, 4, 5});
  const SegmentedArray rows = Fixed(Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT32, {3, 3, 3}));
  for (const SegmentedArray& array : {ragged, rows}) {
    const auto reason_of = [&](const std::function<void(v1::SegmentsCommit&)>& change) {
      auto requests = array.Requests();
      change(*requests.back().mutable_commit());
      return ReasonOf(requests);
    };
    EXPECT_EQ(reason_of([](v1::SegmentsCommit&) {}), "");
    EXPECT_EQ(reason_of([](auto& commit) { commit.set_segment_count(2); }), "COUNT_MISMATCH");
    EXPECT_EQ(reason_of([](auto& commit) { commit.mutable_array()->set_element_count(2); }),
              "COUNT_MISMATCH");
    EXPECT_EQ(reason_of([](auto& commit) { commit.mutable_array()->set_byte_count(2); }), "COUNT_MISMATCH");
    EXPECT_EQ(reason_of([](auto& commit) { commit.mutable_array()->set_crc32c(2); }), "BAD_HEADER");
    auto truncated = array.Requests();
    truncated.pop_back();
    EXPECT_EQ(ReasonOf(truncated), "NO_COMMIT");
  }
  SegmentedArray uneven = rows;
  uneven.header.set_segment_length(4);
  uneven.lengths = {4, 4, 1};
  EXPECT_EQ(ReasonOf(uneven.Requests()), "COUNT_MISMATCH");
  uneven.header.set_expected_element_count(9);
  EXPECT_EQ(ReasonOf(uneven.Requests()), "BAD_HEADER");
}

TEST_F(SegmentsTest, AMismatchSaysBothNumbers) {
  SegmentedArray array = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT32, {4, 4, 1});
  const auto expect = [&](const std::vector<v1::ReduceSegmentsRequest>& requests, const char* field,
                          const char* announced, const char* received) {
    EXPECT_THAT(
        kernels::ErrorDetails(StatusOf(requests)),
        testing::UnorderedElementsAre(testing::Pair("field", field), testing::Pair("announced", announced),
                                      testing::Pair("received", received)));
  };
  array.header.set_segment_length(4);
  expect(array.Requests(), "segment_length", "4", "1");
  array.header.clear_segment_length();
  auto requests = array.Requests();
  v1::ReduceCommit& commit = *requests.back().mutable_commit()->mutable_array();
  ASSERT_EQ(requests[2].chunk().data().size(), 36u) << "header, lengths, elements, commit";
  requests[2].mutable_chunk()->mutable_data()->resize(28);
  commit.set_element_count(7);
  commit.set_byte_count(28);
  expect(requests, "lengths", "9", "7");
}

TEST_F(SegmentsTest, HeadersThatAreRefused) {
  const SegmentedArray rows = Fixed(Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT32, {3, 3, 3}));
  const auto field_of = [&](const std::function<void(v1::ReduceSegmentsHeader&)>& change) {
    auto requests = rows.Requests();
    change(*requests.front().mutable_header());
    const absl::Status status = StatusOf(requests);
    EXPECT_NE(ErrorReason(status), "");
    const auto details = kernels::ErrorDetails(status);
    const auto field =
        std::find_if(details.begin(), details.end(), [](const auto& d) { return d.first == "field"; });
    return field == details.end() ? "" : std::string(field->second);
  };
  EXPECT_EQ(field_of([](auto& header) { header.set_segment_length(0); }), "segment_length");
  EXPECT_EQ(field_of([](auto& header) { header.set_segment_length(~std::uint64_t{0}); }), "segment_length");
  EXPECT_EQ(field_of([](auto& header) {
              header.mutable_spec()->mutable_matrix_shape()->set_rows(1);
              header.mutable_spec()->mutable_matrix_shape()->set_columns(1);
            }),
            "matrix_shape");
  EXPECT_EQ(field_of([](auto& header) { header.mutable_spec()->set_algorithm(v1::ALGORITHM_LAST_BLOCK); }),
            "algorithm");
  EXPECT_EQ(field_of([](auto& header) { header.set_request_id("\n"); }), "request_id");
  EXPECT_EQ(field_of([](auto& header) {
              header.set_expected_element_count(9);
              header.set_expected_segment_count(2);
            }),
            "expected_segment_count");
  EXPECT_EQ(field_of([](auto& header) {
              header.clear_segment_length();
              header.mutable_reference()->set_element_count(1);
            }),
            "expected_segment_count");
  // Where any length would leave elements over, their number is wrong; otherwise the length may be.
  EXPECT_EQ(field_of([](auto& header) {
              header.set_expected_element_count(10);
              header.set_expected_segment_count(3);
            }),
            "expected_element_count");
  EXPECT_EQ(field_of([](auto& header) {
              header.mutable_reference()->set_element_count(10);
              header.set_expected_segment_count(3);
            }),
            "reference.element_count");
  EXPECT_EQ(field_of([](auto& header) {
              header.set_expected_element_count(9);
              header.set_expected_segment_count(0);
            }),
            "expected_segment_count");
  EXPECT_EQ(field_of([](auto& header) {
              header.set_expected_element_count(10);
              header.set_expected_segment_count(0);
            }),
            "expected_element_count");
  EXPECT_EQ(field_of([](auto& header) {
              header.set_expected_element_count(10);
              header.set_expected_segment_count(5);
            }),
            "segment_length");
  EXPECT_EQ(field_of([](auto& header) { header.set_expected_element_count(10); }), "segment_length");
}

TEST_F(SegmentsTest, NumbersThatContradictEachOtherAreAllNamed) {
  const SegmentedArray rows = Fixed(Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT32, {3, 3, 3}));
  auto requests = rows.Requests();
  v1::ReduceSegmentsHeader& header = *requests.front().mutable_header();
  const auto message = [&] { return std::string(StatusOf(requests).message()); };
  header.set_expected_element_count(10);
  EXPECT_EQ(message(), "segment_length of 3 does not divide the expected_element_count of 10");
  header.set_expected_segment_count(3);
  EXPECT_EQ(message(),
            "expected_element_count must be 3 x 3, the segment_length times the expected_segment_count");
  header.clear_expected_segment_count();
  header.clear_expected_element_count();
  header.mutable_reference()->set_element_count(10);
  EXPECT_EQ(message(), "segment_length of 3 does not divide the reference.element_count of 10");
}

}  // namespace
}  // namespace warpfold::server
