// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls without a transport: the test brings the events, one after the other, and sees what each call asks
// for.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "server/core/call.h"
#include "server/core/shard.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"
#include "warpfold/v1/arrays.pb.h"

namespace warpfold::server {
namespace {

constexpr char kReduce[] = "/warpfold.v1.ReductionService/Reduce";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kMerge[] = "/warpfold.v1.ReductionService/Merge";
constexpr char kReduceArray[] = "/warpfold.v1.ReductionService/ReduceArray";
constexpr char kListArrays[] = "/warpfold.v1.ArrayService/ListArrays";
constexpr char kServerInfo[] = "/warpfold.v1.ReductionService/GetServerInfo";

// A call, and what it has asked of its transport so far.
class Caller : private Transport {
 public:
  Caller(Shard& shard, const std::string& method, const std::string& host = "192.0.2.1",
         bool expects_admission = false)
      : call_(shard, *this,
              {.method = method,
               .peer = "ipv4:" + host + ":1024",
               .array = "an array",
               .expects_admission = expects_admission}) {
    call_.Begin();
  }

  void Say(std::string message) {
    EXPECT_TRUE(std::exchange(reading_, false));
    call_.OnMessage(Message::Of(std::move(message)));
  }
  void HalfClose() {
    EXPECT_TRUE(std::exchange(reading_, false));
    call_.OnEnd();
  }

  Call& call() { return call_; }
  bool reading() const { return reading_; }
  int sent() const { return sent_; }
  bool told_admitted() const { return told_admitted_; }
  bool answered() const { return status_.has_value(); }
  // Of the answer.
  std::string Reason() const { return status_.has_value() ? kernels::ErrorReason(*status_) : "no answer"; }

 private:
  void Read() override { reading_ = true; }
  void TellAdmitted() override { EXPECT_FALSE(reading_ || std::exchange(told_admitted_, true)); }
  void Send(std::string) override { ++sent_; }
  void Answer(const absl::Status& status, std::optional<std::string>) override { status_ = status; }
  void CutOff() override {}

  bool reading_ = false;
  bool told_admitted_ = false;
  int sent_ = 0;
  std::optional<absl::Status> status_;
  Call call_;
};

class CallEventsTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPoolBytes = std::uint64_t{64} << 20;

  void Wait(absl::Duration time) {
    now_ += time;
    shard_.OnTick();
  }

  absl::Time now_ = absl::UnixEpoch();
  FakeBackend backend_;
  Service service_{backend_, Limits(), [this] { return now_; }};
  Shard shard_{service_, SlotsOf(backend_)};
};

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
  for (Caller& call : calls) call.call().OnLeft();
  silent.call().OnLeft();
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
  watch.call().OnLeft();
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
    for (Caller& call : calls) call.call().OnLeft();
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
  for (Caller& watch : watches) watch.call().OnLeft();
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
  for (Caller& watch : watches) watch.call().OnLeft();
}

// A client that does not take its answer could go on sending.
TEST_F(CallEventsTest, AnAnswerToWhoCanStillSendCountsAWindow) {
  std::deque<Caller> calls;
  const auto is_patient = [&] { return service_.answers.Patience(absl::Minutes(1)) == absl::Minutes(1); };
  while (is_patient()) calls.emplace_back(shard_, kServerInfo).Say("");
  EXPECT_EQ(calls.size(), kMaxPendingAnswerBytes / kStreamWindowBytes);
  calls.pop_back();
  EXPECT_TRUE(is_patient());
  while (calls.size() < kMaxPendingAnswerBytes / kStreamWindowBytes + 10) {
    calls.emplace_back(shard_, kServerInfo).HalfClose();
  }
  EXPECT_TRUE(is_patient());
}

TEST_F(CallEventsTest, MergesAndListsAreTakenInTurns) {
  for (const std::string method : {kMerge, kListArrays}) {
    // Each method has parties of its own, because what a party has had is remembered.
    std::deque<Caller> greedy;
    for (int i = 0; i < 50; ++i) greedy.emplace_back(shard_, method, method + " by the greedy one");
    Caller modest(shard_, method, method + " by the modest one");
    const std::string nonsense(1 << 20, 'x');
    for (Caller& caller : greedy) caller.Say(nonsense);
    EXPECT_TRUE(greedy[0].answered());
    EXPECT_FALSE(greedy[1].answered()) << method << ": another party may come first";
    modest.Say("");
    EXPECT_TRUE(modest.answered());
    while (shard_.turns().has_waiting()) {
      now_ += Turns::kPatience;
      shard_.ServeTurns();
    }
    for (Caller& caller : greedy) EXPECT_EQ(caller.Reason(), "BAD_MESSAGE");
  }
}

// Others are held for the next message of its call, and for that of its next one (server/core/turns.h).
TEST_F(CallEventsTest, WhoHasLessIsExpectedOnceItCanSend) {
  std::deque<Caller> greedy;
  for (int i = 0; i < 20; ++i) greedy.emplace_back(shard_, kMerge, "192.0.2.2");
  auto greet = [&greedy, next = 0]() mutable { greedy[next++].Say(std::string(1 << 20, 'x')); };
  const auto is_held = [this] {
    shard_.ServeTurns();
    return shard_.turns().held_until().has_value();
  };
  Caller silent(shard_, kMerge);  // keeps what is known of its party
  greet();
  greet();
  EXPECT_FALSE(is_held()) << "nothing is known of who has sent nothing";
  Caller asks_little(shard_, kListArrays);
  asks_little.Say("");
  EXPECT_EQ(asks_little.Reason(), "");
  greet();
  EXPECT_FALSE(is_held()) << "a list costs the thread much, but has few bytes";
  Caller refused(shard_, kReduceArray);
  refused.Say(std::string(3 << 20, 'x'));
  EXPECT_EQ(refused.Reason(), "BAD_MESSAGE");
  greet();
  EXPECT_FALSE(is_held()) << "it has no reason to send more";

  Caller begins(shard_, kListArrays);
  greet();
  EXPECT_TRUE(is_held());
  now_ += Turns::kPatience;
  begins.Say("");
  EXPECT_EQ(begins.Reason(), "");
  EXPECT_TRUE(is_held()) << "its next call is expected";
  EXPECT_EQ(shard_.LongestWait(absl::Seconds(1)), Turns::kPatience);

  Caller stream(shard_, kReduce);
  Caller stream_that_ends(shard_, kReduce);
  now_ += Turns::kPatience / 2;
  stream.Say(Header({v1::OPERATOR_SUM}).SerializeAsString());
  EXPECT_TRUE(stream.reading());
  greet();
  EXPECT_TRUE(is_held()) << "its array is expected";

  stream.call().OnLeft();
  EXPECT_FALSE(shard_.turns().held_until().has_value()) << "it has left";
  // The device works on it for long.
  backend_.behaviour.SetBlocked(true);
  const std::vector<int> elements(1 << 15);
  stream_that_ends.Say(Header({v1::OPERATOR_SUM}).SerializeAsString());
  stream_that_ends.Say(Chunk(elements).SerializeAsString());
  stream_that_ends.Say(Commit(elements.size(), elements.size() * sizeof(int)).SerializeAsString());
  EXPECT_TRUE(is_held());
  stream_that_ends.HalfClose();
  EXPECT_FALSE(stream_that_ends.answered());
  EXPECT_FALSE(shard_.turns().held_until().has_value()) << "no message will come";
  stream_that_ends.call().OnLeft();

  Caller last(shard_, kListArrays);
  silent.call().OnLeft();
  last.Say("");
  EXPECT_TRUE(service_.tags.has_several());
  Wait(Turns::kPatience);
  EXPECT_FALSE(service_.tags.has_several()) << "it has not come again";
}

TEST_F(CallEventsTest, AMergeThatWaitsForItsTurnCanBeStopped) {
  Caller other(shard_, kMerge, "192.0.2.2");
  Caller first(shard_, kMerge);
  Caller second(shard_, kMerge);
  first.Say("x");
  second.Say("x");
  EXPECT_FALSE(second.answered());
  shard_.StopAll(kernels::Error(absl::StatusCode::kUnavailable, "DRAINING", "the server ends"));
  EXPECT_EQ(second.Reason(), "DRAINING");
  EXPECT_FALSE(shard_.turns().has_waiting());
}

// It is refused anyway, and would lie in memory meanwhile.
TEST_F(CallEventsTest, AMessageThatIsTooLargeWaitsForNoTurn) {
  Caller other(shard_, kMerge, "192.0.2.2");
  Caller first(shard_, kMerge);
  Caller second(shard_, kMerge);
  first.Say("x");
  second.Say(std::string(kMaxPayloadBytes + kMaxFramingBytes + 1, 'x'));
  EXPECT_EQ(second.Reason(), "MESSAGE_TOO_LARGE");
}

TEST_F(CallEventsTest, OnlyReductionsAndMergesArePartsOfArrays) {
  Caller watch(shard_, kWatch);
  watch.Say("");
  watch.HalfClose();
  Caller info(shard_, kServerInfo);
  EXPECT_FALSE(service_.admission.AwaitsCalls(now_)) << "a drain would wait for them";
  Caller merge(shard_, kMerge);
  EXPECT_TRUE(service_.admission.AwaitsCalls(now_));
  watch.call().OnLeft();
}

// A server that drains waits for what its client makes of it.
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
    merge.call().OnLeft();
  }
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

// More elements than 64 bits can count the bytes of.
TEST_F(CallEventsTest, NoArrayIsKeptWhoseBytesCannotBeCounted) {
  service_.residents.Open(backend_.AllocateOfEach(kPoolBytes), {.owner_bytes = kPoolBytes});
  v1::PutArrayRequest request;
  request.mutable_header()->set_element_type(v1::ELEMENT_TYPE_INT32);
  for (const std::uint64_t count : {(std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}}) {
    request.mutable_header()->set_element_count(count);
    Caller put(shard_, "/warpfold.v1.ArrayService/PutArray");
    put.Say(request.SerializeAsString());
    EXPECT_EQ(put.Reason(), "ARRAY_TOO_LARGE");
    put.call().OnLeft();
  }
  EXPECT_EQ(service_.residents.room().free_bytes, kPoolBytes);
}

// Room for an array is not had for a header and a trickle.
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
