// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A party's turns while a message of it, which has had its turn, waits for a slot, and what is small
// meanwhile (server/core/turns.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "server/core/turns.h"
#include "tests/server/call_fixture.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kSmall = Turns::kSmallCost;
constexpr std::uint64_t kLarge = Turns::kSmallCost + 1;

class TurnsAndSlotsTest : public testing::Test {
 protected:
  // A call whose turns are noted by its name.
  Turns::Member& Add(const std::string& party, const std::string& name) {
    return members_.emplace_back(turns_, party, [this, name] { taken_.push_back(name); });
  }
  // Gives everybody turns who may have one; returns who had them.
  std::vector<std::string> Taken() {
    while (turns_.has_ready()) {
      turns_.Serve();
      if (turns_.held_until().has_value()) now_ = *turns_.held_until();
    }
    return std::exchange(taken_, {});
  }

  absl::Time now_ = absl::UnixEpoch();
  PartyTags tags_;
  const Clock clock_ = [this] { return now_; };
  Turns turns_{tags_, clock_};
  std::vector<std::string> taken_;
  std::deque<Turns::Member> members_;
};

TEST_F(TurnsAndSlotsTest, LargeMessagesOfAPartyWaitBehindOneThatWaitsForASlot) {
  Turns::Member& first = Add("party", "first");
  Turns::Member& second = Add("party", "second");
  Turns::Member& third = Add("party", "third");
  Turns::Member& other = Add("other", "other");
  EXPECT_TRUE(first.Ask(kLarge));
  first.SetWaitsForSlot(true);
  EXPECT_FALSE(second.Ask(kLarge));
  EXPECT_FALSE(third.Ask(kLarge));
  EXPECT_EQ(Taken(), std::vector<std::string>{});
  EXPECT_TRUE(turns_.has_waiting());
  EXPECT_TRUE(other.Ask(2 * kLarge)) << "another party does not wait for that";
  EXPECT_FALSE(other.Ask(kLarge));
  EXPECT_EQ(Taken(), std::vector<std::string>{"other"}) << "though it has had more";
  first.SetWaitsForSlot(false);
  EXPECT_TRUE(turns_.has_ready());
  EXPECT_EQ(Taken(), (std::vector<std::string>{"second", "third"}));
}

TEST_F(TurnsAndSlotsTest, EachOfThoseThatWaitForSlotsHoldsItsPartyBack) {
  Turns::Member& first = Add("party", "first");
  std::optional<Turns::Member> second(std::in_place, turns_, "party", [] {});
  Turns::Member& third = Add("party", "third");
  for (const bool waits : {true, true}) {
    first.SetWaitsForSlot(waits);
    second->SetWaitsForSlot(waits);
  }
  Add("other", "other");
  EXPECT_FALSE(third.Ask(kLarge));
  first.SetWaitsForSlot(false);
  EXPECT_EQ(Taken(), std::vector<std::string>{}) << "the second one waits still";
  second.reset();
  EXPECT_EQ(Taken(), std::vector<std::string>{"third"});
}

TEST_F(TurnsAndSlotsTest, WhoIsAloneIsNotHeldBack) {
  Turns::Member& first = Add("party", "first");
  first.SetWaitsForSlot(true);
  EXPECT_TRUE(Add("party", "second").Ask(kLarge));
}

TEST_F(TurnsAndSlotsTest, SmallMessagesNeedNoSlot) {
  Turns::Member& waits = Add("party", "waits");
  Add("other", "other");
  EXPECT_TRUE(waits.Ask(kLarge));
  waits.SetWaitsForSlot(true);
  EXPECT_FALSE(Add("party", "large").Ask(kLarge));
  EXPECT_FALSE(Add("party", "small").Ask(kSmall)) << "the other party has had less";
  EXPECT_EQ(Taken(), std::vector<std::string>{"small"});
}

TEST_F(TurnsAndSlotsTest, SmallAndLargeMessagesOfAPartyAlternate) {
  EXPECT_TRUE(Add("other", "other").Ask(kLarge));
  EXPECT_TRUE(Add("party", "first").Ask(kSmall));
  EXPECT_FALSE(Add("party", "second").Ask(kSmall)) << "the party has had more than the other one";
  for (int i = 0; i < 3; ++i) Add("party", "large").Ask(kLarge);
  for (int i = 0; i < 3; ++i) Add("party", "small").Ask(kSmall);
  EXPECT_EQ(Taken(),
            (std::vector<std::string>{"large", "second", "large", "small", "large", "small", "small"}));
}

// The turn of a small message may come while the party's large ones wait.
TEST_F(TurnsAndSlotsTest, ASmallMessageOfWhoHasHadLeastIsTakenAtOnce) {
  Turns::Member& party = Add("party", "party");
  EXPECT_TRUE(Add("other", "other").Ask(100 * kLarge));
  party.SetWaitsForSlot(true);
  EXPECT_FALSE(Add("party", "large").Ask(kLarge));
  EXPECT_TRUE(Add("party", "small").Ask(kSmall));
  party.SetWaitsForSlot(false);
  EXPECT_FALSE(Add("party", "small").Ask(kSmall)) << "it is the large one's turn";
  EXPECT_EQ(Taken(), (std::vector<std::string>{"large", "small"}));
}

// A party that others have passed over for long comes next, but for its message that may not be taken.
TEST_F(TurnsAndSlotsTest, WhatMayNotBeTakenIsNotOverdue) {
  Turns::Member& greedy = Add("greedy", "greedy");
  Turns::Member& modest = Add("modest", "modest");
  EXPECT_TRUE(greedy.Ask(std::uint64_t{8} << 20));
  greedy.SetWaitsForSlot(true);
  EXPECT_FALSE(Add("greedy", "large").Ask(kLarge));
  for (std::uint64_t cost = 0; cost < 2 * Turns::kMostPassedOver * (kLarge + Turns::kMessageCost);
       cost += kSmall) {
    EXPECT_TRUE(modest.Ask(kSmall)) << cost;
  }
}

// Nobody may be left whose turn would end the hold.
TEST_F(TurnsAndSlotsTest, AHoldEndsAlsoWhereNobodyIsReady) {
  Turns::Member& greedy = Add("greedy", "greedy");
  Turns::Member& modest = Add("modest", "modest");
  EXPECT_TRUE(modest.Ask(std::uint64_t{1} << 20));
  EXPECT_TRUE(greedy.Ask(std::uint64_t{32} << 20));
  modest.Expect();
  EXPECT_FALSE(Add("greedy", "large").Ask(kLarge));
  turns_.Serve();
  ASSERT_TRUE(turns_.held_until().has_value());
  greedy.SetWaitsForSlot(true);
  now_ = *turns_.held_until();
  turns_.Serve();
  EXPECT_FALSE(turns_.held_until().has_value());
  EXPECT_EQ(Taken(), std::vector<std::string>{});
}

// The same by calls, whose slots the device does not finish.
TEST_F(CallTest, MessagesBehindOneThatWaitsForASlotWaitForTheirTurns) {
  backend_.behaviour.SetBlocked(true);
  const std::string header = Header({v1::OPERATOR_SUM}).SerializeAsString();
  const std::string chunk =
      Chunk(std::vector<int>(backend_.slots()[0]->staging().size() / sizeof(int))).SerializeAsString();
  Caller modest(shard_, kReduce, "192.0.2.2");
  std::deque<Caller> greedy;
  const std::size_t slots = backend_.slots().size();
  for (std::size_t i = 0; i < slots + 2; ++i) greedy.emplace_back(shard_, kReduce);
  const auto serve = [this] {
    while (shard_.has_turns() || shard_.turns().held_until().has_value()) {
      now_ += Turns::kPatience;
      shard_.ServeTurns();
    }
  };
  for (Caller& caller : greedy) caller.Say(header);
  modest.Say(header);
  serve();
  for (Caller& caller : greedy) {
    caller.Say(chunk);
    serve();
  }
  EXPECT_EQ(shard_.slots().waiting(), 1u) << "one has had its turn";
  EXPECT_TRUE(shard_.turns().has_waiting()) << "and the other waits for it";
  EXPECT_FALSE(shard_.has_turns());
  modest.Say(chunk);
  EXPECT_EQ(shard_.slots().waiting(), 2u) << "another party's message waits behind none";
  backend_.behaviour.Finish(0);
  shard_.OnDeviceFinished();
  EXPECT_TRUE(modest.reading()) << "its party had no slot";
  backend_.behaviour.Finish(0);
  shard_.OnDeviceFinished();
  EXPECT_TRUE(greedy[slots].reading());
  serve();
  EXPECT_EQ(shard_.slots().waiting(), 1u) << "now the last one has had its turn";
  EXPECT_FALSE(shard_.turns().has_waiting());
  backend_.behaviour.SetBlocked(false);
  shard_.OnDeviceFinished();
  EXPECT_TRUE(greedy[slots + 1].reading());
}

}  // namespace
}  // namespace warpfold::server
