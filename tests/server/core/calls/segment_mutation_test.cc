// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Mutated streams of ReduceSegments, like those of Reduce in stream_mutation_test.cc.
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/segments.h"
#include "server/core/wire/messages.h"
#include "tests/server/core/calls/mutated_streams.h"
#include "tests/server/drive_segments.h"

namespace warpfold::server {
namespace {

constexpr v1::Operator kOperators[] = {v1::OPERATOR_SUM, v1::OPERATOR_ARGMIN, v1::OPERATOR_MEAN,
                                       v1::OPERATOR_MAX_SUBARRAY_SUM};
constexpr v1::ElementType kTypes[] = {v1::ELEMENT_TYPE_INT32, v1::ELEMENT_TYPE_UINT8, v1::ELEMENT_TYPE_INT64,
                                      v1::ELEMENT_TYPE_FLOAT64};

Messages RandomStream(Random& random) {
  SegmentedArray array;
  const std::size_t first = Below(random, std::size(kOperators) - 1);
  array.header =
      SegmentsHeader({kOperators[first], kOperators[first + 1]}, kTypes[Below(random, std::size(kTypes))]);
  const std::uint64_t element_bytes = array.reduction().element_bytes();
  array.data = RandomData(random, element_bytes);
  const std::uint64_t elements = array.data.size() / element_bytes;
  const bool is_even = OneIn(random, 2);
  // In a large array some segments are longer than a slot.
  const std::uint64_t length = 1 + Below(random, elements < 1000 ? 20 : elements);
  for (std::uint64_t left = elements; left > 0;) {
    const std::uint64_t next = is_even ? length : std::min<std::uint64_t>(left, Below(random, 2 * length));
    if (next > left) break;
    array.lengths.push_back(next);
    left -= next;
  }
  const std::uint64_t cut = std::accumulate(array.lengths.begin(), array.lengths.end(), std::uint64_t{0});
  array.data.resize(cut * element_bytes);
  if (is_even) array.header.set_segment_length(length);
  if (OneIn(random, 4)) array.header.set_expected_element_count(cut);
  if (OneIn(random, 4)) array.header.set_expected_segment_count(array.lengths.size());
  array.header.set_with_crc32c(OneIn(random, 2));
  std::vector<v1::ReduceSegmentsRequest> requests =
      array.Requests(RandomEnds(random, array.data.size()), 1 + Below(random, 20));
  if (array.header.with_crc32c()) {
    requests.back().mutable_commit()->mutable_array()->set_crc32c(proto::ComputeCrc32c(AsBytes(array.data)));
  }
  Messages messages;
  for (const v1::ReduceSegmentsRequest& request : requests) messages.push_back(request.SerializeAsString());
  return messages;
}

// Appends the lengths that a message announces to those before.
bool AddLengths(const std::string& bytes, std::vector<std::uint64_t>* lengths) {
  if (bytes.size() % 8 != 0) return false;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::memcpy(&lengths->emplace_back(), bytes.data() + at, 8);
    if (lengths->back() > kMaxArrayBytes) return false;
  }
  return true;
}

// What comes between the header and the commit; none if that is not allowed.
std::optional<SegmentedArray> Between(const v1::ReduceSegmentsHeader& header, std::uint64_t element_bytes,
                                      const std::vector<v1::ReduceSegmentsRequest>& requests) {
  SegmentedArray array = {.header = header, .data = {}, .lengths = {}};
  std::uint64_t announced = 0;
  for (std::size_t i = 1; i + 1 < requests.size(); ++i) {
    const v1::ReduceSegmentsRequest& request = requests[i];
    if (request.has_lengths()) {
      if (header.has_segment_length() || !AddLengths(request.lengths().lengths(), &array.lengths)) {
        return std::nullopt;
      }
      announced = std::accumulate(array.lengths.begin(), array.lengths.end(), std::uint64_t{0});
    } else if (!request.has_chunk() || !ChunkHolds(request.chunk())) {
      return std::nullopt;
    }
    array.data += request.chunk().data();
    // Lengths come before the elements.
    if (!header.has_segment_length() && array.data.size() > announced * element_bytes) return std::nullopt;
  }
  return array;
}

// Whether header and commit are true of the array, all of whose lengths are there.
bool CountsHold(const SegmentedArray& array, const v1::SegmentsCommit& commit) {
  const v1::ReduceSegmentsHeader& header = array.header;
  const std::uint64_t cut = std::accumulate(array.lengths.begin(), array.lengths.end(), std::uint64_t{0});
  return cut == array.element_count() && commit.segment_count() == array.lengths.size() &&
         CommitHolds(commit.array(), array.data, array.reduction().element_bytes(), header.with_crc32c()) &&
         (!header.has_expected_element_count() || header.expected_element_count() == cut) &&
         (!header.has_expected_segment_count() || header.expected_segment_count() == array.lengths.size());
}

// The rows that these messages should yield; none if they are not a whole stream.
std::optional<SegmentRows> PlainReading(const Messages& messages, std::uint64_t max_stream_bytes) {
  const auto requests = Parsed<v1::ReduceSegmentsRequest>(messages);
  if (!requests.has_value() || requests->size() < 2) return std::nullopt;
  if (!requests->front().has_header() || !requests->back().has_commit()) return std::nullopt;
  const v1::ReduceSegmentsHeader& header = requests->front().header();
  const auto plan = PlanFromProto(header.spec());
  if (!plan.ok() || !kernels::CheckSegments(*plan).ok() || header.has_reference() ||
      !IsText(header.request_id())) {
    return std::nullopt;
  }
  std::optional<SegmentedArray> array = Between(header, plan->element_bytes(), *requests);
  if (!array.has_value()) return std::nullopt;
  if (header.has_segment_length()) {
    const std::uint64_t length = header.segment_length();
    if (length == 0 || length > max_stream_bytes / plan->element_bytes()) return std::nullopt;
    if (array->element_count() % length != 0) return std::nullopt;
    array->lengths.assign(array->element_count() / length, length);
  }
  return CountsHold(*array, requests->back().commit()) ? std::optional(array->Expected()) : std::nullopt;
}

class SegmentMutationTest : public MutationTest {};

TEST_F(SegmentMutationTest, SegmentsAreNeverAnsweredWrongly) {
  int answered = 0;
  Play([&](bool mutates) {
    Messages messages = RandomStream(random_);
    if (mutates) Mutate(random_, messages);
    SegmentDriver driver(service_, pool_);
    if (!Send(driver, messages)) return;
    driver.TakeOutput();
    ASSERT_TRUE(driver.ended());
    const std::optional<SegmentRows> deserved = PlainReading(messages, kMaxStreamBytes);
    if (!mutates) {
      ASSERT_TRUE(deserved.has_value()) << "a whole stream";
    }
    ASSERT_EQ(driver.status().ok(), deserved.has_value()) << driver.status();
    if (!deserved.has_value()) return;
    ++answered;
    ASSERT_TRUE(driver.reader().has_summary());
    ASSERT_EQ(driver.reader().rows(), *deserved);
  });
  EXPECT_GT(answered, MutatedStreams() / 7);
}

}  // namespace
}  // namespace warpfold::server
