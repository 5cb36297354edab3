// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A party's turns while one of its messages, which has had its turn, waits for a slot, and its light messages
// in the meantime (server/core/admission/turns.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/core/admission/turns.h"
#include "tests/server/core/calls/call_fixture.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kBulkBytes = std::uint64_t{1} << 20;

class TurnsAndSlotsTest : public testing::Test {
 protected:
  // Adds a call whose turns are recorded under its name.
  Turns::Member& Add(const std::string& party, const std::string& name) {
    return members_.emplace_back(turns_, party, [this, name] { taken_.push_back(name); });
  }
  static bool AskLight(Turns::Member& member, std::uint64_t costs_bytes = 0) {
    return member.Ask({.costs_bytes = costs_bytes, .bytes = 0, .kind = Turns::Kind::kLight});
  }
  // Gives turns to everybody who may have one; returns who had them.
  std::vector<std::string> Taken() {
    while (turns_.has_ready()) {
      turns_.Serve();
      if (turns_.held_until().has_value()) now_ = *turns_.held_until();
    }
    return std::exchange(taken_, {});
  }

  absl::Time now_ = absl::UnixEpoch();
  const Clock clock_ = [this] { return now_; };
  PartyTags tags_;
  Turns turns_{tags_, clock_};
  std::vector<std::string> taken_;
  std::deque<Turns::Member> members_;
};

TEST_F(TurnsAndSlotsTest, BulkOfAPartyWaitsBehindWhatWaitsForASlot) {
  Turns::Member& first = Add("party", "first");
  Turns::Member& second = Add("party", "second");
  Turns::Member& third = Add("party", "third");
  Turns::Member& other = Add("other", "other");
  EXPECT_TRUE(first.Ask(kBulkBytes));
  first.SetWaitsForSlot(true);
  EXPECT_FALSE(second.Ask(kBulkBytes));
  EXPECT_FALSE(third.Ask(kBulkBytes));
  EXPECT_EQ(Taken(), std::vector<std::string>{});
  EXPECT_TRUE(turns_.has_waiting());
  EXPECT_TRUE(other.Ask(2 * kBulkBytes)) << "another party does not wait for that";
  EXPECT_FALSE(other.Ask(kBulkBytes));
  EXPECT_EQ(Taken(), std::vector<std::string>{"other"}) << "though it has had more";
  first.SetWaitsForSlot(false);
  EXPECT_TRUE(turns_.has_ready());
  EXPECT_EQ(Taken(), (std::vector<std::string>{"second", "third"}));
}

TEST_F(TurnsAndSlotsTest, EachThatWaitsForASlotHoldsItsPartyBack) {
  Turns::Member& first = Add("party", "first");
  auto second = std::make_unique<Turns::Member>(turns_, "party", [] {});
  Turns::Member& third = Add("party", "third");
  EXPECT_TRUE(first.Ask(kBulkBytes));
  EXPECT_TRUE(second->Ask(kBulkBytes));
  Add("other", "other");
  for (int said = 0; said < 2; ++said) {  // repeatedly, which counts once
    first.SetWaitsForSlot(true);
    second->SetWaitsForSlot(true);
  }
  EXPECT_FALSE(third.Ask(kBulkBytes));
  first.SetWaitsForSlot(false);
  EXPECT_EQ(Taken(), std::vector<std::string>{}) << "the second one waits still";
  second.reset();
  EXPECT_EQ(Taken(), std::vector<std::string>{"third"});
}

TEST_F(TurnsAndSlotsTest, WhoIsAloneIsNotHeldBack) {
  Turns::Member& first = Add("party", "first");
  Turns::Member& second = Add("party", "second");
  auto other = std::make_unique<Turns::Member>(turns_, "other", [] {});
  EXPECT_TRUE(first.Ask(kBulkBytes));
  first.SetWaitsForSlot(true);
  EXPECT_FALSE(second.Ask(kBulkBytes));
  EXPECT_TRUE(other->Ask(kBulkBytes));
  other->Expect();
  other.reset();
  EXPECT_FALSE(turns_.has_ready());
  now_ += Turns::kPatience;
  turns_.OnTick();
  EXPECT_EQ(Taken(), std::vector<std::string>{"second"}) << "nobody competes any more";
  EXPECT_TRUE(second.Ask(kBulkBytes));
}

// A party's small arrays may wait for slots all the time, one after the other.
TEST_F(TurnsAndSlotsTest, WhatIsLightHoldsNothingBack) {
  Add("other", "other");
  Turns::Member& light = Add("party", "light");
  EXPECT_TRUE(AskLight(light));
  light.SetWaitsForSlot(true);
  EXPECT_FALSE(Add("party", "bulk").Ask(kBulkBytes)) << "the other party has had less";
  EXPECT_EQ(Taken(), std::vector<std::string>{"bulk"});
}

TEST_F(TurnsAndSlotsTest, WhatIsLightIsTakenMeanwhile) {
  Turns::Member& waits = Add("party", "waits");
  Add("other", "other");
  EXPECT_TRUE(waits.Ask(kBulkBytes));
  waits.SetWaitsForSlot(true);
  EXPECT_FALSE(Add("party", "bulk").Ask(kBulkBytes));
  EXPECT_FALSE(AskLight(Add("party", "light"))) << "the other party has had less";
  EXPECT_EQ(Taken(), std::vector<std::string>{"light"});
}

TEST_F(TurnsAndSlotsTest, BothKindsOfAPartyGetTheSame) {
  EXPECT_TRUE(Add("other", "other").Ask(kBulkBytes));
  EXPECT_TRUE(AskLight(Add("party", "light")));
  EXPECT_FALSE(AskLight(Add("party", "light"), 2 * kBulkBytes))
      << "the party has had more than the other one";
  for (int i = 0; i < 3; ++i) Add("party", "bulk").Ask(kBulkBytes);
  constexpr std::size_t kAsMuch = kBulkBytes / Turns::kMessageCost + 1;  // as a bulk message counts
  for (std::size_t i = 0; i < kAsMuch + 1; ++i) AskLight(Add("party", "light"));
  std::vector<std::string> expected = {"light", "bulk", "light",
                                       "bulk"};  // the first one cost as much as two
  expected.insert(expected.end(), kAsMuch, "light");
  expected.emplace_back("bulk");
  EXPECT_EQ(Taken(), expected);
}

// While no bulk message waits, nothing is counted that it would have to make up for.
TEST_F(TurnsAndSlotsTest, LightMessagesOfBeforeDoNotCount) {
  Add("other", "other");
  for (int i = 0; i < 100; ++i) AskLight(Add("party", "light"));
  EXPECT_EQ(Taken().size(), 99u) << "one was taken at once";
  Add("party", "bulk").Ask(kBulkBytes);
  AskLight(Add("party", "light"));
  EXPECT_EQ(Taken(), (std::vector<std::string>{"light", "bulk"}));
}

TEST_F(TurnsAndSlotsTest, LightMessagesMeanwhileDoNotCount) {
  Turns::Member& waits = Add("party", "waits");
  Add("other", "other");
  EXPECT_TRUE(waits.Ask(kBulkBytes));
  waits.SetWaitsForSlot(true);
  for (int i = 0; i < 2; ++i) Add("party", "bulk").Ask(kBulkBytes);
  for (int i = 0; i < 100; ++i) AskLight(Add("party", "light"));
  EXPECT_EQ(Taken().size(), 100u);
  waits.SetWaitsForSlot(false);
  AskLight(Add("party", "light"));
  EXPECT_EQ(Taken(), (std::vector<std::string>{"light", "bulk", "bulk"}));
}

TEST_F(TurnsAndSlotsTest, WhatIsLightAndOfWhoHasHadLeastIsTakenAtOnce) {
  Turns::Member& party = Add("party", "party");
  EXPECT_TRUE(Add("other", "other").Ask(8 * kBulkBytes));
  EXPECT_TRUE(party.Ask(kBulkBytes));
  party.SetWaitsForSlot(true);
  EXPECT_FALSE(Add("party", "bulk").Ask(kBulkBytes));
  EXPECT_TRUE(AskLight(Add("party", "light"), 2 * kBulkBytes));
  EXPECT_TRUE(AskLight(Add("party", "light")));
  party.SetWaitsForSlot(false);
  EXPECT_FALSE(AskLight(Add("party", "light"))) << "bulk waits for a turn, too";
  EXPECT_EQ(Taken(), (std::vector<std::string>{"light", "bulk"}));
}

// A party that others have passed over for long comes next, except for its message that may not be taken.
TEST_F(TurnsAndSlotsTest, WhatMayNotBeTakenIsNotOverdue) {
  Turns::Member& greedy = Add("greedy", "greedy");
  Turns::Member& modest = Add("modest", "modest");
  EXPECT_TRUE(greedy.Ask(8 * kBulkBytes));
  greedy.SetWaitsForSlot(true);
  EXPECT_FALSE(Add("greedy", "bulk").Ask(1));
  for (std::uint64_t cost = 0; cost < 2 * Turns::kMaxPassedOver * Turns::kMessageCost;
       cost += Turns::kMessageCost) {
    EXPECT_TRUE(AskLight(modest)) << cost;
  }
}

class HeldForOneTest : public TurnsAndSlotsTest {
 protected:
  HeldForOneTest() {
    EXPECT_TRUE(modest_.Ask(kBulkBytes));
    EXPECT_TRUE(greedy_.Ask(32 * kBulkBytes));
    modest_.Expect();
    EXPECT_FALSE(waits_.Ask(kBulkBytes));
  }

  Turns::Member& greedy_ = Add("greedy", "greedy");
  Turns::Member& waits_ = Add("greedy", "waits");
  Turns::Member& modest_ = Add("modest", "modest");
};

TEST_F(HeldForOneTest, AHoldEndsWhereNobodyIsReady) {
  turns_.Serve();
  ASSERT_TRUE(turns_.held_until().has_value());
  greedy_.SetWaitsForSlot(true);
  turns_.Serve();
  EXPECT_FALSE(turns_.held_until().has_value());
  EXPECT_EQ(Taken(), std::vector<std::string>{});
}

TEST_F(HeldForOneTest, AHoldEndsWhereItsPartyBeginsToWaitForASlot) {
  turns_.Serve();
  ASSERT_TRUE(turns_.held_until().has_value());
  modest_.SetWaitsForSlot(true);
  turns_.Serve();
  EXPECT_FALSE(turns_.held_until().has_value());
  EXPECT_EQ(taken_, std::vector<std::string>{"waits"});
}

TEST_F(HeldForOneTest, NobodyIsHeldForWhoWaitsForASlot) {
  modest_.SetWaitsForSlot(true);
  turns_.Serve();
  EXPECT_FALSE(turns_.held_until().has_value());
  EXPECT_EQ(taken_, std::vector<std::string>{"waits"});
}

// The same with calls, whose slots the device does not finish.
class BlockedCallsTest : public CallTest {
 protected:
  BlockedCallsTest() { backend_.behaviour.SetBlocked(true); }

  static std::string ChunkOf(std::size_t bytes) {
    return Chunk(std::vector<int>(bytes / sizeof(int))).SerializeAsString();
  }
  // Does what a party's calls have to do until they wait.
  void Work() {
    while (shard_.has_work() || shard_.turns().held_until().has_value()) {
      now_ += Turns::kPatience;
      shard_.Work();
    }
  }
  void Say(Caller& caller, const std::string& message) {
    caller.Say(message);
    Work();
  }
  void Finish() {
    backend_.behaviour.Finish(0);
    shard_.OnDeviceFinished();
  }

  const std::size_t slots_ = backend_.slots().size();
  const std::size_t slot_bytes_ = backend_.slots()[0]->staging().size();
  const std::string header_ = Header({v1::OPERATOR_SUM}).SerializeAsString();
};

TEST_F(BlockedCallsTest, MessagesBehindOneThatWaitsForASlotWaitForTheirTurns) {
  const std::string chunk = ChunkOf(slot_bytes_);
  Caller modest(shard_, kReduce, "192.0.2.2");
  std::deque<Caller> greedy;
  for (std::size_t i = 0; i < slots_ + 2; ++i) greedy.emplace_back(shard_, kReduce);
  Say(modest, header_);
  for (Caller& caller : greedy) Say(caller, header_);
  for (Caller& caller : greedy) Say(caller, chunk);
  EXPECT_EQ(shard_.slots().waiting(), 1u) << "one has had its turn";
  EXPECT_TRUE(shard_.turns().has_waiting()) << "and the other waits for it";
  EXPECT_FALSE(shard_.has_work());
  Caller light(shard_, kListArrays);
  Say(light, "");
  EXPECT_TRUE(light.answered());
  Say(modest, chunk);
  EXPECT_EQ(shard_.slots().waiting(), 2u) << "another party's message waits behind none";
  Finish();
  EXPECT_TRUE(modest.reading()) << "its party had no slot";
  Finish();
  EXPECT_TRUE(greedy[slots_].reading());
  Work();
  EXPECT_EQ(shard_.slots().waiting(), 1u) << "now the last one has had its turn";
  EXPECT_FALSE(shard_.turns().has_waiting());
  Finish();
  EXPECT_TRUE(greedy[slots_ + 1].reading());
}

struct Waiting {
  const char* name;
  const char* method;
  std::string header;
};

v1::ReduceSegmentsRequest Segments(std::uint64_t length) {
  v1::ReduceSegmentsRequest request;
  *request.mutable_header()->mutable_spec() = Header({v1::OPERATOR_SUM}).header().spec();
  request.mutable_header()->set_segment_length(length);
  return request;
}

v1::PutArrayRequest Put(std::uint64_t bytes) {
  v1::PutArrayRequest request;
  request.mutable_header()->set_element_type(v1::ELEMENT_TYPE_INT32);
  request.mutable_header()->set_element_count(bytes / sizeof(int));
  request.mutable_header()->set_owner("tests");
  return request;
}

TEST_F(BlockedCallsTest, WhateverWaitsForASlotHoldsItsPartyBack) {
  service_.residents.Open(backend_.AllocateOfEach(kPoolBytes), {.owner_bytes = kPoolBytes});
  const std::string chunk = ChunkOf(2 * slot_bytes_);
  const std::vector<Waiting> all = {
      {.name = "an array", .method = kReduce, .header = header_},
      {.name = "a kept array", .method = kPutArray, .header = Put(2 * slot_bytes_).SerializeAsString()},
      {.name = "rows", .method = kReduceSegments, .header = Segments(64).SerializeAsString()},
      {.name = "a long segment",
       .method = kReduceSegments,
       .header = Segments(slot_bytes_).SerializeAsString()},
  };
  for (const Waiting& waiting : all) {
    SCOPED_TRACE(waiting.name);
    std::deque<Caller> busy;
    for (std::size_t i = 0; i < slots_; ++i) {
      busy.emplace_back(shard_, kReduce, "192.0.2.2");
      Say(busy.back(), header_);
      Say(busy.back(), ChunkOf(slot_bytes_));
    }
    Caller first(shard_, waiting.method);
    Caller second(shard_, kReduce);
    Say(second, header_);
    Say(first, waiting.header);
    Say(first, chunk);
    ASSERT_EQ(shard_.slots().waiting(), 1u);
    Say(second, chunk);
    EXPECT_EQ(shard_.slots().waiting(), 1u);
    EXPECT_TRUE(shard_.turns().has_waiting());
    for (int i = 0; i < 2 * static_cast<int>(slots_) + 4 && backend_.behaviour.working() > 0; ++i) {
      Finish();
      Work();
    }
    EXPECT_FALSE(shard_.turns().has_waiting());
    EXPECT_TRUE(first.reading() && second.reading());
    for (Caller& caller : busy) caller.call().OnDisconnected();
    first.call().OnDisconnected();
    second.call().OnDisconnected();
    while (backend_.behaviour.working() > 0) Finish();
  }
}

// They would hold back their party's other messages for ever: one of them is always waiting.
TEST_F(BlockedCallsTest, SmallChunksDoNotStarveLargeOnes) {
  constexpr std::size_t kSmall = 32 << 10;
  Caller other(shard_, kReduce, "192.0.2.2");
  std::deque<Caller> small;
  for (std::size_t i = 0; i < 3 * slots_; ++i) small.emplace_back(shard_, kReduce);
  Caller large(shard_, kReduce);
  for (Caller& caller : small) Say(caller, header_);
  Say(large, header_);
  for (int taken = 0, finished = 0; taken < 4; ++finished) {
    ASSERT_LT(finished, 100);
    for (Caller& caller : small) {
      if (caller.reading()) Say(caller, ChunkOf(kSmall));
    }
    if (large.reading()) {
      Say(large, ChunkOf(4 * kSmall));
      ++taken;
    }
    if (backend_.behaviour.working() > 0) Finish();
    Work();
  }
}

TEST_F(BlockedCallsTest, WhoLeavesWhileItWaitsForASlotHoldsNobodyBack) {
  Caller other(shard_, kReduce, "192.0.2.2");
  std::deque<Caller> greedy;
  for (std::size_t i = 0; i < slots_ + 2; ++i) greedy.emplace_back(shard_, kReduce);
  for (Caller& caller : greedy) Say(caller, header_);
  for (Caller& caller : greedy) Say(caller, ChunkOf(slot_bytes_));
  ASSERT_TRUE(shard_.turns().has_waiting());
  greedy[slots_].call().OnDisconnected();
  Work();
  EXPECT_FALSE(shard_.turns().has_waiting());
  EXPECT_EQ(shard_.slots().waiting(), 1u);
}

}  // namespace
}  // namespace warpfold::server
