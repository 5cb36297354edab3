// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments through a session: results are those of a reduction of each segment, however the stream is cut.

#include "server/core/wire/operator_names.h"
#include "tests/server/core/calls/segments_fixture.h"

namespace warpfold::server {
namespace {

const std::vector<std::uint64_t> kRagged = {0, 1, 5, 0, 0, 1000, 4095, 30'000, 7, 1, 0, 16'384, 2, 0};

TEST_F(SegmentsTest, TellsLogsOfWhichReductionTheyAre) {
  const SegmentedArray array = Array({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_INT32, {3, 2});
  SegmentDriver driver(service_, pool_);
  CallRecord before;
  driver.session().Describe(absl::UnixEpoch(), &before);
  EXPECT_FALSE(before.reduction.has_value());
  for (const v1::ReduceSegmentsRequest& request : array.Requests()) driver.OnMessage(MessageOf(request));
  CallRecord record;
  driver.session().Describe(absl::UnixEpoch(), &record);
  ASSERT_TRUE(record.reduction.has_value());
  EXPECT_EQ(record.reduction->spec().operators, (std::vector<std::string>{"sum", "max"}));
  driver.session().Release();
}

// The log of a call that failed says how long its array had been coming.
TEST_F(SegmentsTest, AnArrayThatIsNotCommittedComesUntilTheEnd) {
  absl::Time now = absl::UnixEpoch();
  Service service(*backend_, Limits{.max_stream_bytes = 1 << 20}, [&now] { return now; });
  const auto requests = Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_INT32, {3, 2}).Requests();
  SegmentDriver driver(service, pool_);
  CallRecord record;
  for (const v1::ReduceSegmentsRequest& request : requests) {
    driver.OnMessage(MessageOf(request));
    now += absl::Seconds(1);
    driver.session().Describe(now, &record);
    const std::size_t until_commit = std::min<std::size_t>(requests.size() - 1, &request - &requests[0] + 1);
    EXPECT_EQ(record.stages->receive, absl::Seconds(until_commit));
  }
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

// The announced size of an array that is too large is enough to reject it.
TEST_F(SegmentsTest, TooManySegmentsAreRefusedAtOnce) {
  constexpr std::uint64_t kMaxBytes = 1 << 26;
  for (const int beyond : {-1, 0, 1}) {
    v1::ReduceSegmentsRequest request;
    *request.mutable_header() = SegmentsHeader({v1::OPERATOR_SUM});
    request.mutable_header()->set_segment_length(4);
    request.mutable_header()->set_expected_segment_count(kMaxBytes / 4 / 4 + beyond);
    EXPECT_EQ(ReasonOf({request}), beyond > 0 ? "ARRAY_TOO_LARGE" : "NO_COMMIT") << beyond;
    // There are at most as many lengths, which may be zero, as bytes.
    request.mutable_header()->clear_segment_length();
    request.mutable_header()->set_expected_segment_count(kMaxBytes + beyond);
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
                [this] { RevokeLoans(pool_); });
    ExpectRight(rows, rows.Requests(RandomCuts(rows.data.size(), 20)), [this] { RevokeLoans(pool_); });
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
  SegmentDriver driver(service_, pool_);
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

// Two streams take one slot from each other in the middle of a segment.
TEST_F(SegmentsTest, LittleIsHeldOfASegmentThatIsNotWhole) {
  std::string note;
  const auto backend = kernels::MakeBackend("cpu", {.slots = 1, .slot_bytes = 8 << 20}, &note).value();
  Service service(*backend, Limits{.max_stream_bytes = 1 << 26}, [] { return absl::UnixEpoch(); });
  SlotPool pool(SlotsOf(*backend));
  std::uint64_t most_held = 0;
  for (const std::uint64_t segment : {kMaxHeldBytes, kMaxHeldBytes + 1, std::uint64_t{7} << 20}) {
    const SegmentedArray array =
        Fixed(Array({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_UINT8, std::vector<std::uint64_t>(2, segment)));
    std::vector<std::size_t> cuts;
    for (std::size_t cut = segment / 2; cut < array.data.size(); cut += segment / 3) cuts.push_back(cut);
    const std::vector<v1::ReduceSegmentsRequest> requests = array.Requests(cuts);
    SegmentDriver one(service, pool);
    SegmentDriver other(service, pool);
    for (const v1::ReduceSegmentsRequest& request : requests) {
      for (SegmentDriver* const driver : {&one, &other}) {
        driver->OnMessage(MessageOf(request));
        driver->AwaitDevice();
        most_held = std::max({most_held, one.session().held_bytes(), other.session().held_bytes()});
        driver->TakeOutput();
      }
    }
    for (SegmentDriver* const driver : {&one, &other}) {
      driver->OnEnd();
      driver->AwaitDevice();
      driver->TakeOutput();
      EXPECT_TRUE(driver->status().ok()) << driver->status();
      EXPECT_TRUE(driver->reader().rows() == array.Expected());
    }
  }
  EXPECT_GT(most_held, kMaxHeldBytes / 3);
  EXPECT_LE(most_held, kMaxHeldBytes);
}

// Slots of 5 MiB may each have 1.25 MiB of results: at most three of these may wait. Two slots of 20 MiB may
// have more results than may wait otherwise.
TEST_F(SegmentsTest, ResultsOfLargeSlotsDoNotWaitBeyondTheLimit) {
  const SegmentedArray rows = Fixed(Array({v1::OPERATOR_SUM, v1::OPERATOR_MAX, v1::OPERATOR_MIN},
                                          v1::ELEMENT_TYPE_UINT8, std::vector<std::uint64_t>(600'000, 1)));
  constexpr std::uint64_t kRowBytes = 24;
  constexpr std::uint64_t kMessage = 10'000;
  std::vector<std::size_t> cuts;
  for (std::size_t cut = kMessage; cut < rows.data.size(); cut += kMessage) cuts.push_back(cut);
  const std::vector<v1::ReduceSegmentsRequest> requests = rows.Requests(cuts);
  for (const std::uint64_t slot_bytes : {5 << 20, 20 << 20}) {
    std::string note;
    const auto backend = kernels::MakeBackend("cpu", {.slots = 3, .slot_bytes = slot_bytes}, &note).value();
    Service service(*backend, Limits{.max_stream_bytes = 1 << 26}, [] { return absl::UnixEpoch(); });
    SlotPool pool(SlotsOf(*backend));
    SegmentDriver driver(service, pool);
    std::size_t next = 0;
    const auto send = [&] {
      while (next < requests.size() && driver.need() == ArraySession::Need::kMessage && !driver.ended()) {
        driver.OnMessage(MessageOf(requests[next++]));
      }
    };
    send();
    EXPECT_EQ(driver.need(), ArraySession::Need::kDevice);
    // The results that wait, and the message that does not fit.
    EXPECT_LE(driver.session().array_bytes(),
              std::max(kMaxWaitingResultBytes, slot_bytes / 2) / kRowBytes + kMessage);
    while (next < requests.size()) {
      driver.TakeOutput();
      driver.AwaitDevice();
      send();
    }
    driver.OnEnd();
    driver.AwaitDevice();
    driver.TakeOutput();
    ASSERT_TRUE(driver.ended());
    EXPECT_TRUE(driver.status().ok()) << driver.status();
    EXPECT_TRUE(driver.reader().rows() == rows.Expected());
  }
}

// Nobody reads the results: the session asks for no more than fits the limit, and goes on when they are read.
TEST_F(SegmentsTest, WhoDoesNotReadIsNotReadFrom) {
  const SegmentedArray rows = Fixed(Array({v1::OPERATOR_SUM, v1::OPERATOR_MAX}, v1::ELEMENT_TYPE_UINT8,
                                          std::vector<std::uint64_t>(1'000'000, 1)));
  std::vector<std::size_t> cuts;
  for (std::size_t cut = 10'000; cut < rows.data.size(); cut += 10'000) cuts.push_back(cut);
  const std::vector<v1::ReduceSegmentsRequest> requests = rows.Requests(cuts);
  SegmentDriver driver(service_, pool_);
  std::size_t next = 0;
  const auto send = [&] {
    while (next < requests.size() && driver.need() == ArraySession::Need::kMessage && !driver.ended()) {
      driver.OnMessage(MessageOf(requests[next++]));
      for (int i = 0; i < 100; ++i) pool_.Poll();
    }
  };
  send();
  EXPECT_EQ(driver.need(), ArraySession::Need::kDevice);
  // 16 bytes of results for each byte of elements.
  const std::uint64_t most = kMaxWaitingResultBytes / 16 + pool_.size() * kSlotBytes + 20'000;
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

// Arrays that lie in memory yield the same rows, from any place in it.
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
