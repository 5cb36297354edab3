// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments through a session: results are those of a reduction for each segment, however the stream is cut,
// and streams that contradict themselves are refused. On the backend that WARPFOLD_TEST_DEVICE names, cpu
// unless it says cuda:N.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "absl/time/clock.h"
#include "kernels/devices.h"
#include "kernels/error.h"
#include "server/core/operator_names.h"
#include "tests/server/drive_segments.h"
#include "tests/server/drive_session.h"
#include "tests/server/piece_heap.h"

namespace warpfold::server {
namespace {

using kernels::ErrorReason;

constexpr std::size_t kSlotBytes = 64 << 10;

std::unique_ptr<kernels::Backend> BackendUnderTest() {
  const char* const name = std::getenv("WARPFOLD_TEST_DEVICE");
  std::string note;
  return kernels::MakeBackend(name != nullptr ? name : "cpu", {.slots = 3, .slot_bytes = kSlotBytes}, &note)
      .value();
}

class SegmentsTest : public testing::Test {
 protected:
  SegmentsTest()
      : backend_(BackendUnderTest()),
        service_(*backend_, Limits{.max_stream_bytes = 1 << 26}, [] { return absl::UnixEpoch(); }) {
    // A device that takes pieces reads half of the messages where they lie.
    const absl::Status opened = backend_->OpenPieces(heap_.memory());
    EXPECT_TRUE(opened.ok() || absl::IsUnimplemented(opened)) << opened;
  }

  // As it may come: in slices, in memory that the device reads or elsewhere.
  Message Arrive(std::string bytes) {
    const std::size_t slice = random_() % (bytes.size() + 1);
    const std::size_t middle = (slice + bytes.size()) / 2;
    return random_() % 2 == 0 ? MessageOf(std::move(bytes), {slice, middle})
                              : heap_.MessageIn(bytes, {slice, middle}, random_() % 16);
  }

  std::string Bytes(std::size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  // An array of random bits, cut into these lengths.
  SegmentedArray Array(const std::vector<v1::Operator>& operators, v1::ElementType type,
                       std::vector<std::uint64_t> lengths) {
    SegmentedArray array = {.header = SegmentsHeader(operators, type), .data = {}, .lengths = {}};
    const std::uint64_t elements = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    array.data = Bytes(elements * array.reduction().element_bytes());
    array.lengths = std::move(lengths);
    return array;
  }

  static SegmentedArray Fixed(SegmentedArray array) {
    array.header.set_segment_length(array.lengths.front());
    return array;
  }

  std::vector<std::size_t> RandomCuts(std::size_t size, std::size_t count) {
    std::vector<std::size_t> cuts(count);
    for (std::size_t& cut : cuts) cut = random_() % (size + 1);
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  }

  // What an ended call started on a device may still be at work.
  void ExpectAllFree() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (share_.free() < share_.size() && absl::Now() < deadline) share_.Poll();
    EXPECT_EQ(share_.free(), share_.size());
  }

  void ExpectRight(
      const SegmentedArray& array, const std::vector<v1::ReduceSegmentsRequest>& requests,
      const std::function<void()>& between = [] {}) {
    const absl::StatusOr<SegmentRows> rows = DriveSegments(
        service_, share_, requests, between, [this](std::string bytes) { return Arrive(std::move(bytes)); });
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_TRUE(*rows == array.Expected());
    ExpectAllFree();
  }

  absl::Status StatusOf(const std::vector<v1::ReduceSegmentsRequest>& requests) {
    const absl::StatusOr<SegmentRows> rows = DriveSegments(service_, share_, requests);
    ExpectAllFree();
    EXPECT_EQ(share_.waiting(), 0u);
    return rows.status();
  }
  std::string ReasonOf(const std::vector<v1::ReduceSegmentsRequest>& requests) {
    return ErrorReason(StatusOf(requests));
  }

  std::mt19937_64 random_{1};  // NOLINT(cert-msc51-cpp): the same arrays on every run
  PieceHeap heap_;
  std::unique_ptr<kernels::Backend> backend_;
  Service service_;
  SlotShare share_{SlotsOf(*backend_)};
};

const std::vector<std::uint64_t> kRagged = {0, 1, 5, 0, 0, 1000, 4095, 30'000, 7, 1, 0, 16'384, 2, 0};

TEST_F(SegmentsTest, TellsLogsOfWhichReductionTheyAre) {
  const SegmentedArray array = Array({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_INT32, {3, 2});
  SegmentDriver driver(service_, share_);
  CallRecord before;
  driver.session().Describe(&before);
  EXPECT_FALSE(before.reduction.has_value());
  for (const v1::ReduceSegmentsRequest& request : array.Requests()) driver.OnMessage(MessageOf(request));
  CallRecord record;
  driver.session().Describe(&record);
  ASSERT_TRUE(record.reduction.has_value());
  EXPECT_EQ(record.reduction->spec().operators, (std::vector<std::string>{"sum", "max"}));
  driver.session().Release();
}

TEST_F(SegmentsTest, ASegmentIsNoLongerThanTheLongestArray) {
  for (const int beyond : {-1, 0, 1}) {
    v1::ReduceSegmentsRequest request;
    *request.mutable_header() = SegmentsHeader({v1::OPERATOR_SUM});
    request.mutable_header()->set_segment_length((1 << 26) / 4 + beyond);
    EXPECT_EQ(ReasonOf({request}), beyond > 0 ? "ARRAY_TOO_LARGE" : "NO_COMMIT") << beyond;
  }
}

TEST_F(SegmentsTest, EveryOperatorAndType) {
  int pairs = 0;
  const auto names = kernels::OperatorNames();
  for (std::size_t family = 0; family < names.size(); ++family) {
    for (int t = 0; t < kElementTypeCount; ++t) {
      const auto type = ElementTypeAt(t);
      if (!kernels::OperatorTakesScalars(static_cast<int>(family), type)) continue;
      ++pairs;
      SCOPED_TRACE(absl::StrCat(names[family], " ", ElementTypeName(type)));
      const v1::Operator op = OperatorByName(std::string(names[family]));
      const SegmentedArray ragged = Array({op}, ElementTypeToProto(type), kRagged);
      ExpectRight(ragged, ragged.Requests(RandomCuts(ragged.data.size(), 5), 1 + random_() % 8));
      const SegmentedArray rows =
          Fixed(Array({op}, ElementTypeToProto(type), std::vector<std::uint64_t>(40, 1 + random_() % 700)));
      ExpectRight(rows, rows.Requests(RandomCuts(rows.data.size(), 3)));
    }
  }
  EXPECT_GT(pairs, 250);
}

TEST_F(SegmentsTest, SeveralOperatorsInOnePass) {
  const std::vector<v1::Operator> operators = {v1::OPERATOR_SUM,      v1::OPERATOR_ARGMAX,
                                               v1::OPERATOR_DESCRIBE, v1::OPERATOR_MAX_SUBARRAY_SUM,
                                               v1::OPERATOR_MINMAX,   v1::OPERATOR_ANY};
  for (const v1::ElementType type : {v1::ELEMENT_TYPE_INT64, v1::ELEMENT_TYPE_FLOAT32}) {
    const SegmentedArray array = Array(operators, type, kRagged);
    ASSERT_FALSE(array.Expected().errors.empty());
    for (int i = 0; i < 50; ++i) {
      ExpectRight(array, array.Requests(RandomCuts(array.data.size(), random_() % 9), 1 + random_() % 20));
    }
  }
}

TEST_F(SegmentsTest, SegmentsLongerThanASlotAndOthersBetween) {
  const std::vector<std::uint64_t> lengths = {3, 40'000, 0, 100'000, 250'001, 1, 16'385, 16'384, 0, 900'000};
  const SegmentedArray array = Array({v1::OPERATOR_SUM, v1::OPERATOR_ARGMIN, v1::OPERATOR_VARIANCE},
                                     v1::ELEMENT_TYPE_FLOAT32, lengths);
  for (int i = 0; i < 20; ++i) {
    ExpectRight(array, array.Requests(RandomCuts(array.data.size(), 12), 1 + random_() % 10));
  }
}

TEST_F(SegmentsTest, SlotsAreCalledInBetweenMessages) {
  const SegmentedArray ragged = Array({v1::OPERATOR_SUM, v1::OPERATOR_LAST}, v1::ELEMENT_TYPE_FLOAT64,
                                      {10, 5000, 5000, 5000, 8000, 0, 20'000, 3, 8191, 8192});
  const SegmentedArray rows =
      Fixed(Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT16, std::vector<std::uint64_t>(50, 3001)));
  for (int i = 0; i < 50; ++i) {
    ExpectRight(ragged, ragged.Requests(RandomCuts(ragged.data.size(), 20), 3),
                [this] { CallInLoans(share_); });
    ExpectRight(rows, rows.Requests(RandomCuts(rows.data.size(), 20)), [this] { CallInLoans(share_); });
  }
}

TEST_F(SegmentsTest, NothingAndNothingButEmptySegments) {
  SegmentedArray none = {.header = SegmentsHeader({v1::OPERATOR_SUM}), .data = {}, .lengths = {}};
  ExpectRight(none, none.Requests());
  none.header.set_segment_length(3);
  ExpectRight(none, none.Requests());
  const SegmentedArray empty = Array({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_INT8,
                                     std::vector<std::uint64_t>(300'000, 0));
  ASSERT_EQ(empty.Expected().errors.size(), 300'000u);
  ExpectRight(empty, empty.Requests({}, 100'000));
}

TEST_F(SegmentsTest, AMillionSegments) {
  const SegmentedArray rows =
      Fixed(Array({v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_UINT8, std::vector<std::uint64_t>(1'000'000, 2)));
  ExpectRight(rows, rows.Requests(RandomCuts(rows.data.size(), 4)));
  std::vector<std::uint64_t> lengths(1'000'000);
  for (std::uint64_t& length : lengths) length = random_() % 4;
  const SegmentedArray ragged = Array({v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_UINT8, lengths);
  ExpectRight(ragged, ragged.Requests(RandomCuts(ragged.data.size(), 4), 65'536));
}

TEST_F(SegmentsTest, TheLayoutNamesColumns) {
  SegmentDriver driver(service_, share_);
  v1::ReduceSegmentsRequest request;
  *request.mutable_header() = SegmentsHeader({v1::OPERATOR_ARGMAX, v1::OPERATOR_MINMAX, v1::OPERATOR_ALL});
  driver.OnMessage(MessageOf(request));
  driver.TakeOutput();
  const v1::SegmentLayout& layout = driver.reader().layout();
  ASSERT_EQ(layout.columns_size(), 5);
  EXPECT_EQ(layout.columns(0).kind(), v1::SEGMENT_VALUE_KIND_INT64);
  EXPECT_EQ(layout.columns(1).content(), v1::SEGMENT_CONTENT_INDEX);
  EXPECT_EQ(layout.columns(2).field(), "min");
  EXPECT_EQ(layout.columns(3).field(), "max");
  EXPECT_EQ(layout.columns(3).operator_(), v1::OPERATOR_MINMAX);
  EXPECT_EQ(layout.columns(4).kind(), v1::SEGMENT_VALUE_KIND_BOOL);
}

// Nobody takes results: the session asks for no more than fits the limit, and goes on when they are taken.
TEST_F(SegmentsTest, WhoDoesNotReadIsNotReadFrom) {
  const SegmentedArray rows = Fixed(Array({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_UINT8,
                                          std::vector<std::uint64_t>(1'000'000, 1)));
  std::vector<std::size_t> cuts;
  for (std::size_t cut = 10'000; cut < rows.data.size(); cut += 10'000) cuts.push_back(cut);
  const std::vector<v1::ReduceSegmentsRequest> requests = rows.Requests(cuts);
  SegmentDriver driver(service_, share_);
  std::size_t next = 0;
  const auto send = [&] {
    while (next < requests.size() && driver.need() == ArraySession::Need::kMessage && !driver.ended()) {
      driver.OnMessage(MessageOf(requests[next++]));
      for (int i = 0; i < 100; ++i) share_.Poll();
    }
  };
  send();
  EXPECT_EQ(driver.need(), ArraySession::Need::kDevice);
  // 16 bytes of results for each byte of elements.
  const std::uint64_t most = kMaxWaitingResultBytes / 16 + share_.size() * kSlotBytes + 20'000;
  EXPECT_LT(driver.session().array_bytes(), most);
  ExpectAllFree();  // no slot is kept for a client that does not read
  while (!driver.ended()) {
    driver.TakeOutput();
    driver.AwaitDevice();
    send();
    if (next == requests.size() && !driver.ended()) {
      driver.OnEnd();
      ++next;
    }
  }
  EXPECT_TRUE(driver.status().ok()) << driver.status();
  EXPECT_TRUE(driver.reader().rows() == rows.Expected());
}

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
  for (const int beyond : {-1, 0, 1}) {
    auto far_ahead = good;
    far_ahead[1].mutable_lengths()->set_lengths(std::string((kMaxLengthsAhead + beyond) * 8, '\0'));
    EXPECT_EQ(ReasonOf(far_ahead) == "TOO_MANY_LENGTHS", beyond > 0) << beyond;
  }
  // A segment that has begun is no more ahead of its elements.
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

// An array of one-byte elements may have as many segments as bytes; nor do empty ones come without end.
TEST_F(SegmentsTest, AStreamHasAsManyLengthsAsBytes) {
  constexpr std::uint64_t kMost = 1000;
  Service small(*backend_, Limits{.max_stream_bytes = kMost}, [] { return absl::UnixEpoch(); });
  const auto reason_of = [&](const std::vector<std::uint64_t>& lengths) {
    const SegmentedArray array = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT8, lengths);
    return ErrorReason(DriveSegments(small, share_, array.Requests()).status());
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
}

// Arrays that lie in memory: the same rows, from any place in it.
TEST_F(SegmentsTest, FromMemory) {
  using Parts = std::vector<NamedMemory::Part>;
  const std::vector<std::uint64_t> lengths = {0, 1, 70'000, 3, 0, 16'384, 200'000, 5, 20'000'000 / 4, 8, 0};
  SegmentedArray ragged = Array({v1::OPERATOR_SUM, v1::OPERATOR_ARGMAX}, v1::ELEMENT_TYPE_INT32, lengths);
  SegmentedArray rows =
      Fixed(Array({v1::OPERATOR_PRODUCT}, v1::ELEMENT_TYPE_FLOAT32, std::vector<std::uint64_t>(9001, 33)));
  SegmentedArray huge = Fixed(
      Array({v1::OPERATOR_EXACT_SUM}, v1::ELEMENT_TYPE_FLOAT64, std::vector<std::uint64_t>(2, 4'500'000)));
  for (SegmentedArray* const array : {&ragged, &rows, &huge}) {
    for (const std::size_t offset : {0, 4, 3}) {
      const std::string bytes = std::string(offset, 'x') + array->data + "behind";
      std::unique_ptr<kernels::Memory> memory = backend_->Register(AsBytes(bytes)).value();
      const std::string token = service_.memories.Add(
          std::make_shared<NamedMemory>(Parts{{.memory = std::move(memory), .byte_count = bytes.size()}}));
      SegmentedArray named = *array;
      named.header.mutable_reference()->set_token(token);
      named.header.mutable_reference()->set_byte_offset(offset);
      named.header.mutable_reference()->set_element_count(array->element_count());
      named.header.set_expected_segment_count(array->lengths.size());
      std::vector<v1::ReduceSegmentsRequest> requests(1);
      *requests[0].mutable_header() = named.header;
      if (!named.header.has_segment_length()) {
        requests.emplace_back().mutable_lengths()->set_lengths(lengths.data(), 5 * 8);
        requests.emplace_back().mutable_lengths()->set_lengths(lengths.data() + 5, (lengths.size() - 5) * 8);
      }
      ExpectRight(*array, requests);
      if (!named.header.has_segment_length()) {
        auto truncated = requests;
        truncated.pop_back();
        EXPECT_EQ(ReasonOf(truncated), "COUNT_MISMATCH");
        auto beyond = requests;
        beyond[0].mutable_header()->mutable_reference()->set_element_count(array->element_count() - 1);
        EXPECT_EQ(ReasonOf(beyond), "COUNT_MISMATCH");
      }
      service_.memories.Remove(token);
      EXPECT_EQ(ReasonOf(requests), "UNKNOWN_MEMORY");
    }
  }
}

}  // namespace
}  // namespace warpfold::server
