// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a call reacts to events: admission, watches, responses, parts of arrays, reservations.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "server/core/admission/allow_list.h"
#include "server/core/admission/party.h"
#include "tests/server/core/calls/call_fixture.h"
#include "tests/server/requests.h"
#include "warpfold/v1/arrays.pb.h"

namespace warpfold::server {
namespace {

using CallEventsTest = CallTest;

TEST_F(CallEventsTest, WhoAsksIsToldOfItsAdmissionAndNobodyElse) {
  Caller silent(shard_, kReduce);
  EXPECT_FALSE(silent.told_admitted());
  std::deque<Caller> calls;
  while (calls.empty() || !calls.back().answered()) {
    calls.emplace_back(shard_, kReduce, "192.0.2.1", /*expects_admission=*/true);
    EXPECT_NE(calls.back().told_admitted(), calls.back().answered());
  }
  EXPECT_GT(calls.size(), 1u);
  EXPECT_EQ(calls.back().Reason(), "TOO_MANY_REDUCTIONS");
  calls.pop_back();
  for (Caller& call : calls) call.call().OnDisconnected();
  silent.call().OnDisconnected();
}

// Many are refused at once, which counts as 4 MiB for each, so that the client has 0.1 s to read.
class UnreadAnswersTest : public CallTest {
 protected:
  UnreadAnswersTest() {
    for (int refused = 0; refused < 32; refused += calls_.back().answered() ? 1 : 0) {
      calls_.emplace_back(shard_, kReduce);
    }
  }
  ~UnreadAnswersTest() override {
    for (Caller& call : calls_) call.call().OnDisconnected();
  }

  std::ptrdiff_t cut_off() const { return std::ranges::count_if(calls_, &Caller::cut_off); }

  std::deque<Caller> calls_;
};

// While the thread is busy, what it has answered may not have been sent yet.
TEST_F(UnreadAnswersTest, AreGivenUpLaterIfTheThreadWasBusy) {
  for (int i = 0; i < 8; ++i) Wait(absl::Milliseconds(50), /*is_busy=*/true);
  Wait(absl::Milliseconds(40));
  EXPECT_EQ(cut_off(), 0);
  Wait(absl::Milliseconds(20));
  EXPECT_GT(cut_off(), 0);
}

TEST_F(UnreadAnswersTest, AreGivenUpEvenIfThereAreEventsForEver) {
  for (int i = 0; i < 15; ++i) Wait(absl::Milliseconds(50), /*is_busy=*/true);
  EXPECT_EQ(cut_off(), 0);
  for (int i = 0; i < 2; ++i) Wait(absl::Milliseconds(50), /*is_busy=*/true);
  EXPECT_GT(cut_off(), 0);
}

TEST_F(CallEventsTest, AWatchBeginsWhenItsClientCanSendNoMore) {
  Caller watch(shard_, kWatch);
  watch.Say("");
  EXPECT_EQ(watch.sent(), 0);
  EXPECT_TRUE(watch.reading()) << "what is not read would lie in gRPC's hands for as long as the watch lasts";
  watch.HalfClose();
  EXPECT_EQ(watch.sent(), 1);
  Wait(absl::Hours(10));
  EXPECT_FALSE(watch.answered());
  watch.call().OnDisconnected();
}

TEST_F(CallEventsTest, AWatchThatSaysMoreThanItsRequestIsRefused) {
  Caller watch(shard_, kWatch);
  watch.Say("");
  watch.Say("");
  EXPECT_EQ(watch.Reason(), "BAD_MESSAGE");
  Caller silent(shard_, kWatch);
  silent.HalfClose();
  EXPECT_EQ(silent.Reason(), "BAD_MESSAGE");
}

TEST_F(CallEventsTest, AWatchThatDoesNotBeginEndsSoon) {
  Caller watch(shard_, kWatch);
  Wait(kCheckIdle / 2);
  watch.Say("");
  Wait(kCheckIdle / 2 - absl::Milliseconds(1));
  EXPECT_FALSE(watch.answered());
  Wait(absl::Milliseconds(1));
  EXPECT_EQ(watch.Reason(), "IDLE");
}

TEST_F(CallEventsTest, ASmallCallSaysAtOnceWhatItAsks) {
  for (const char* const method : {kServerInfo, kListArrays}) {
    Caller call(shard_, method);
    Wait(kCheckIdle - absl::Milliseconds(1));
    EXPECT_FALSE(call.answered());
    Wait(absl::Milliseconds(1));
    EXPECT_EQ(call.Reason(), "IDLE") << method;
  }
}

// Arrays and merges may be large, and their clients slow.
TEST_F(CallEventsTest, AMessageMayTakeItsTimeUntilPlacesAreShort) {
  for (const char* const method : {kReduceArray, kMerge}) {
    std::deque<Caller> calls;
    for (int i = 0; i < 55; ++i) calls.emplace_back(shard_, method);
    Wait(10 * kCheckIdle);
    const auto count_ended = [&] {
      return std::count_if(calls.begin(), calls.end(), [](const Caller& call) { return call.answered(); });
    };
    EXPECT_EQ(count_ended(), 0) << method;
    Caller& last = calls.emplace_back(shard_, method);
    Wait(absl::Milliseconds(1));
    EXPECT_EQ(count_ended(), 1) << "as many as are too many: " << method;
    EXPECT_FALSE(last.answered());
    EXPECT_EQ(calls.front().Reason(), "IDLE");
    for (Caller& call : calls) call.call().OnDisconnected();
  }
}

TEST_F(CallEventsTest, WatchesThatHaveNotBegunHaveThePlacesOfProbes) {
  std::deque<Caller> watches;
  std::size_t begun = 0;
  for (std::size_t i = 0; i < 2 * Admission::kCheckPlaces; ++i) {
    begun += watches.emplace_back(shard_, kWatch).answered() ? 0 : 1;
  }
  EXPECT_EQ(begun, Admission::kCheckPlaces * 7 / 8);
  for (std::size_t i = 0; i < begun; ++i) {
    watches[i].Say("");
    watches[i].HalfClose();
  }
  EXPECT_FALSE(Caller(shard_, kWatch).answered()) << "those that have begun have other places";
  for (Caller& watch : watches) watch.call().OnDisconnected();
}

TEST_F(CallEventsTest, ThereArePlacesForSoManyWatches) {
  std::deque<Caller> watches;
  for (int i = 0; i < Admission::kWatchPlaces * 7 / 8 + 1; ++i) {
    Caller& watch = watches.emplace_back(shard_, kWatch);
    watch.Say("");
    watch.HalfClose();
  }
  EXPECT_EQ(watches.back().Reason(), "TOO_MANY_CALLS");
  watches.pop_back();
  EXPECT_FALSE(watches.back().answered());
  for (Caller& watch : watches) watch.call().OnDisconnected();
}

// A client that does not read its response could go on sending.
TEST_F(CallEventsTest, AnAnswerToWhoCanStillSendCountsAWindow) {
  std::deque<Caller> calls;
  const std::string party = PartyOf(kAnonymous, "ipv4:192.0.2.1:1024");
  const auto is_patient = [&] {
    return service_.answers.Patience(absl::Minutes(1), party) == absl::Minutes(1);
  };
  while (is_patient()) calls.emplace_back(shard_, kServerInfo).Say("");
  EXPECT_EQ(calls.size(), kMaxPendingAnswerBytes / kStreamWindowBytes);
  calls.pop_back();
  EXPECT_TRUE(is_patient());
  while (calls.size() < kMaxPendingAnswerBytes / kStreamWindowBytes + 10) {
    calls.emplace_back(shard_, kServerInfo).HalfClose();
  }
  EXPECT_TRUE(is_patient());
}

// It has no array, of which a pace could be expected.
TEST_F(CallEventsTest, ReflectionMayGoOnSlowly) {
  service_.reflection = true;
  Caller call(shard_, kReflectionInfo);
  for (int second = 0; second < 200; ++second) {
    ASSERT_FALSE(call.answered()) << "after " << second << " s: " << call.Reason();
    call.Say("\x3a\x01*");
    call.call().OnSent();
    Wait(absl::Seconds(1));
  }
  Wait(service_.limits.call.idle);
  EXPECT_EQ(call.Reason(), "IDLE");
}

// Only the memory of responses is counted, so a call that has responded must keep nothing else.
TEST_F(CallEventsTest, AnAnsweredCallKeepsNothingOfWhatItWasSent) {
  constexpr std::size_t kLong = 60'000;
  v1::ReduceRequest header;
  header.mutable_header()->set_request_id(std::string(kLong, 'x'));
  v1::ReduceArrayRequest array;
  array.set_request_id(std::string(kLong, 'x'));
  v1::PutArrayRequest put;
  put.mutable_header()->set_request_id(std::string(kLong, 'x'));
  v1::MergeRequest merge;
  merge.set_request_id(std::string(kLong, 'x'));
  const std::pair<const char*, std::string> sent[] = {{kReduce, header.SerializeAsString()},
                                                      {kReduceArray, array.SerializeAsString()},
                                                      {kPutArray, put.SerializeAsString()},
                                                      {kMerge, merge.SerializeAsString()}};
  for (const auto& [method, message] : sent) {
    Caller(shard_, method).Say(message);  // for whatever the first one allocates permanently
    std::deque<Caller> calls;
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < 50; ++i) calls.emplace_back(shard_, method).Say(message);
    EXPECT_EQ(calls.back().Reason(), "BAD_HEADER");
    EXPECT_LT((mallinfo2().uordblks + mallinfo2().hblkhd - before) / calls.size(), kLong / 4) << method;
  }
}

// A state of large matrices is half a megabyte.
TEST_F(CallEventsTest, AnAnsweredCallKeepsNoState) {
  v1::ReduceRequest header =
      Header({v1::OPERATOR_SUM, v1::OPERATOR_PRODUCT, v1::OPERATOR_SUM_OF_SQUARES, v1::OPERATOR_L1_NORM},
             v1::ELEMENT_TYPE_FLOAT32);
  header.mutable_header()->mutable_spec()->mutable_matrix_shape()->set_rows(32);
  header.mutable_header()->mutable_spec()->mutable_matrix_shape()->set_columns(32);
  header.mutable_header()->set_first_element(1);  // so that the range has many nodes
  constexpr std::uint64_t kMatrices = 510;
  const std::vector<float> matrices(1024 * kMatrices, 1.0F);
  for (const bool commits : {true, false}) {
    const auto run = [&](Caller& call) {
      call.Say(header.SerializeAsString());
      call.Say(Chunk(matrices).SerializeAsString());
      while (!call.reading()) shard_.OnDeviceFinished();
      if (commits) call.Say(Commit(kMatrices, 4096 * kMatrices).SerializeAsString());
      while (!call.reading()) shard_.OnDeviceFinished();
      call.HalfClose();
      while (!call.answered()) shard_.OnDeviceFinished();
    };
    {
      Caller first(shard_, kReduce);  // for whatever the first one allocates permanently
      run(first);
    }
    std::deque<Caller> calls;
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < 20; ++i) run(calls.emplace_back(shard_, kReduce));
    EXPECT_EQ(calls.back().Reason(), commits ? "" : "NO_COMMIT");
    EXPECT_LT((mallinfo2().uordblks + mallinfo2().hblkhd - before) / calls.size(), std::size_t{32} << 10);
    for (Caller& call : calls) call.call().OnDisconnected();
  }
}

TEST_F(CallEventsTest, OnlyReductionsAndMergesArePartsOfArrays) {
  Caller watch(shard_, kWatch);
  watch.Say("");
  watch.HalfClose();
  Caller info(shard_, kServerInfo);
  EXPECT_FALSE(service_.admission.AwaitsCalls(now_)) << "a drain would wait for them";
  Caller merge(shard_, kMerge);
  EXPECT_TRUE(service_.admission.AwaitsCalls(now_));
  watch.call().OnDisconnected();
}

// A server that drains waits for what its client does with the state.
TEST_F(CallEventsTest, AMergedStateIsWaitedForAndAMergedValueIsNot) {
  for (const bool returns_state : {false, true}) {
    v1::MergeRequest request;
    request.mutable_spec()->add_operators(v1::OPERATOR_SUM);
    request.mutable_spec()->set_element_type(v1::ELEMENT_TYPE_INT32);
    request.add_states();
    request.set_return_state(returns_state);
    Caller merge(shard_, kMerge);
    merge.Say(request.SerializeAsString());
    EXPECT_EQ(merge.Reason(), "");
    EXPECT_EQ(service_.admission.IsQuiet(now_), !returns_state);
    EXPECT_TRUE(service_.admission.IsQuiet(now_ + kMergeWait));
    merge.call().OnDisconnected();
  }
}

// The metrics count results by operator, and the log names operators, type and request.
TEST_F(CallEventsTest, ObserversHearWhatWasMerged) {
  class Records : public CallObserver {
   public:
    void OnBegin(const std::shared_ptr<const LiveCall>&) override {}
    void OnEnd(const std::shared_ptr<const LiveCall>&, const CallRecord& record) override {
      last = record.reduction.has_value() ? record.reduction->spec().operators : std::vector<std::string>();
      request_id = record.request_id;
    }
    std::vector<std::string> last;
    std::string request_id;
  } records;
  service_.observer = &records;
  v1::MergeRequest request;
  const auto merge = [&] {
    Caller caller(shard_, kMerge);
    caller.Say(request.SerializeAsString());
    caller.call().OnDisconnected();
    return std::pair(caller.Reason(), records.last);
  };
  using Operators = std::vector<std::string>;
  EXPECT_EQ(merge(), (std::pair<std::string, Operators>("BAD_HEADER", {})));
  request.mutable_spec()->add_operators(v1::OPERATOR_MAX_ABS);
  request.mutable_spec()->add_operators(v1::OPERATOR_SUM);
  request.mutable_spec()->set_element_type(v1::ELEMENT_TYPE_INT32);
  EXPECT_EQ(merge(), (std::pair<std::string, Operators>("BAD_HEADER", {"max_abs", "sum"}))) << "no states";
  request.add_states();
  EXPECT_EQ(merge(), (std::pair<std::string, Operators>("", {"max_abs", "sum"})));
  request.set_request_id(std::string(128, 'r'));
  EXPECT_EQ(merge().first, "");
  EXPECT_EQ(records.request_id, request.request_id());
  request.set_request_id(std::string(129, 'r'));
  EXPECT_EQ(merge().first, "BAD_HEADER");
  EXPECT_EQ(records.request_id, "") << "what was rejected is not logged";
  service_.observer = nullptr;
}

TEST_F(CallEventsTest, ExpiredArraysAreGoneWithTheNextTick) {
  service_.residents.Open(backend_.AllocateOfEach(kPoolBytes), {.owner_bytes = kPoolBytes});
  auto array = service_.residents.Reserve({.party = "a party",
                                           .owner = "an owner",
                                           .layout = {},
                                           .element_count = 1000,
                                           .byte_count = 4000,
                                           .time_to_live = absl::Seconds(10)},
                                          now_);
  ASSERT_TRUE(array.ok()) << array.status();
  service_.residents.Publish(*array, now_);
  array = nullptr;
  Wait(absl::Seconds(9));
  EXPECT_LT(service_.residents.room().free_bytes, kPoolBytes);
  Wait(absl::Seconds(1));
  EXPECT_EQ(service_.residents.room().free_bytes, kPoolBytes);
}

// An array of more elements than 64 bits can count the bytes of.
TEST_F(CallEventsTest, NoArrayIsKeptWhoseBytesCannotBeCounted) {
  service_.residents.Open(backend_.AllocateOfEach(kPoolBytes), {.owner_bytes = kPoolBytes});
  v1::PutArrayRequest request;
  request.mutable_header()->set_element_type(v1::ELEMENT_TYPE_INT32);
  for (const std::uint64_t count : {(std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}}) {
    request.mutable_header()->set_element_count(count);
    Caller put(shard_, "/warpfold.v1.ArrayService/PutArray");
    put.Say(request.SerializeAsString());
    EXPECT_EQ(put.Reason(), "ARRAY_TOO_LARGE");
    put.call().OnDisconnected();
  }
  EXPECT_EQ(service_.residents.room().free_bytes, kPoolBytes);
}

// A header and a trickle must not be enough to get room for an array.
TEST_F(CallEventsTest, WhoReservesMuchMustKeepPace) {
  ASSERT_LT(service_.limits.call.pace_bytes * 16, kPoolBytes / 2);
  service_.residents.Open(backend_.AllocateOfEach(kPoolBytes), {.owner_bytes = kPoolBytes});
  v1::PutArrayRequest header;
  header.mutable_header()->set_element_type(v1::ELEMENT_TYPE_UINT8);
  header.mutable_header()->set_element_count(kPoolBytes / 2);
  v1::PutArrayRequest chunk;
  chunk.mutable_chunk()->set_data(std::string(service_.limits.call.pace_bytes, 'x'));
  Caller slow(shard_, "/warpfold.v1.ArrayService/PutArray");
  slow.Say(header.SerializeAsString());
  for (int i = 0; i < 3; ++i) {
    Wait(service_.limits.call.idle / 2);
    slow.Say(chunk.SerializeAsString());
  }
  EXPECT_FALSE(slow.answered());
  Wait(service_.limits.call.idle / 2);
  EXPECT_EQ(slow.Reason(), "RATE");
  EXPECT_EQ(service_.residents.room().free_bytes, kPoolBytes);

  Caller fast(shard_, "/warpfold.v1.ArrayService/PutArray");
  fast.Say(header.SerializeAsString());
  chunk.mutable_chunk()->set_data(std::string(kPoolBytes / 2 / 16, 'x'));
  for (int i = 0; i < 3; ++i) {
    Wait(2 * service_.limits.call.idle - absl::Seconds(61));
    fast.Say(chunk.SerializeAsString());
  }
  EXPECT_FALSE(fast.answered());
}

}  // namespace
}  // namespace warpfold::server
