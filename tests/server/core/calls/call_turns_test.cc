// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// When calls take their turns on a shard's thread, and what they expect of their clients
// (server/core/admission/turns.h).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "tests/server/core/calls/call_fixture.h"
#include "tests/server/drive_segments.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

using CallTurnsTest = CallTest;

TEST_F(CallTurnsTest, MergesAndListsAreTakenInTurns) {
  for (const std::string method : {kMerge, kListArrays}) {
    // Each method has its own parties, because what a party has had is remembered.
    std::deque<Caller> greedy;
    for (int i = 0; i < 50; ++i) greedy.emplace_back(shard_, method, method + " by the greedy one");
    Caller modest(shard_, method, method + " by the modest one");
    const std::string nonsense(method == kMerge ? 1 << 20 : 999, 'x');
    for (Caller& caller : greedy) caller.Say(nonsense);
    EXPECT_TRUE(greedy[0].answered());
    EXPECT_FALSE(greedy[1].answered()) << method << ": another party may come first";
    modest.Say("");
    EXPECT_TRUE(modest.answered());
    while (shard_.turns().has_waiting()) {
      now_ += Turns::kPatience;
      shard_.Work();
    }
    for (Caller& caller : greedy) EXPECT_EQ(caller.Reason(), "BAD_MESSAGE");
  }
}

// Others are delayed for the next message of its call, and for that of its next call
// (server/core/admission/turns.h).
TEST_F(CallTurnsTest, WhoHasLessIsExpectedOnceItCanSend) {
  std::deque<Caller> greedy;
  for (int i = 0; i < 20; ++i) greedy.emplace_back(shard_, kMerge, "192.0.2.2");
  auto greet = [&greedy, next = 0]() mutable { greedy[next++].Say(std::string(1 << 20, 'x')); };
  const auto is_held = [this] {
    shard_.Work();
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

  stream.call().OnDisconnected();
  EXPECT_FALSE(shard_.turns().held_until().has_value()) << "it has left";
  // The device works on it for a long time.
  backend_.behaviour.SetBlocked(true);
  const std::vector<int> elements(1 << 15);
  stream_that_ends.Say(Header({v1::OPERATOR_SUM}).SerializeAsString());
  stream_that_ends.Say(Chunk(elements).SerializeAsString());
  stream_that_ends.Say(Commit(elements.size(), elements.size() * sizeof(int)).SerializeAsString());
  EXPECT_TRUE(is_held());
  stream_that_ends.HalfClose();
  EXPECT_FALSE(stream_that_ends.answered());
  EXPECT_FALSE(shard_.turns().held_until().has_value()) << "no message will come";
  stream_that_ends.call().OnDisconnected();

  Caller last(shard_, kListArrays);
  silent.call().OnDisconnected();
  last.Say("");
  EXPECT_TRUE(service_.tags.has_several());
  Wait(Turns::kPatience);
  EXPECT_FALSE(service_.tags.has_several()) << "it has not come again";
}

TEST_F(CallTurnsTest, AMergeThatWaitsForItsTurnCanBeStopped) {
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

// Such a message is rejected anyway, and would occupy memory meanwhile.
TEST_F(CallTurnsTest, AMessageThatIsTooLargeWaitsForNoTurn) {
  Caller other(shard_, kMerge, "192.0.2.2");
  Caller first(shard_, kMerge);
  Caller second(shard_, kMerge);
  first.Say("x");
  second.Say(std::string(kMaxPayloadBytes + kMaxFramingBytes + 1, 'x'));
  EXPECT_EQ(second.Reason(), "MESSAGE_TOO_LARGE");
  Caller lists(shard_, kListArrays);
  lists.Say(std::string(kMaxSmallRequestBytes + 1, 'x'));
  EXPECT_EQ(lists.Reason(), "MESSAGE_TOO_LARGE");
}

// Each is reduced like an array, for which the call takes slots. To find out that it is long takes none.
TEST(CallSlotsTest, LongSegmentsOfAKeptArrayLoseNoTurn) {
  FakeBackend backend(1);
  std::string order;
  backend.behaviour.on_start = [&order](const kernels::ReductionPlan& reduction, bool) {
    order += reduction.spec().element_type == kernels::ElementType::kInt32 ? 's' : 'r';
  };
  backend.behaviour.SetBlocked(true);
  absl::Time now = absl::UnixEpoch();
  Service service(backend, Limits(), [&now] { return now; });
  Shard shard(service, SlotsOf(backend));
  constexpr std::uint64_t kElements = std::uint64_t{1} << 22;
  const std::vector<std::byte> bytes(kElements * 4);
  const std::string token = service.memories.Add(std::make_shared<const NamedMemory>(
      std::make_shared<const FakeMemory>(std::span(bytes), /*host_can_read=*/true), std::span<std::byte>()));
  v1::ReduceRequest reduce = Header({v1::OPERATOR_SUM}, v1::ELEMENT_TYPE_FLOAT32);
  reduce.mutable_header()->mutable_reference()->set_token(token);
  reduce.mutable_header()->mutable_reference()->set_element_count(kElements);
  v1::ReduceSegmentsRequest segments;
  *segments.mutable_header() = SegmentsHeader({v1::OPERATOR_SUM});
  segments.mutable_header()->set_segment_length(kElements / 64);  // two starts
  *segments.mutable_header()->mutable_reference() = reduce.header().reference();
  Caller whole(shard, kReduce, "192.0.2.2");
  whole.Say(reduce.SerializeAsString());
  Caller rows(shard, kReduceSegments);
  rows.Say(segments.SerializeAsString());
  for (int taken = 0; order.size() < 20;) {
    backend.behaviour.FinishAll();
    shard.Work();
    for (; taken < rows.sent(); ++taken) rows.call().OnSent();
  }
  EXPECT_EQ(order.substr(2), "srsrsrsrsrsrsrsrsr") << "after the one that came first";
  rows.call().OnDisconnected();
  whole.call().OnDisconnected();
  backend.behaviour.FinishAll();
  shard.OnDeviceFinished();
}

}  // namespace
}  // namespace warpfold::server
