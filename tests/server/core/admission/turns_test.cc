// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace warpfold::server {
namespace {

// These tests expect no messages: expected_messages_test.cc does that.
const Clock kNoTime = [] { return absl::UnixEpoch(); };

constexpr std::uint64_t kMaxBytes = 4 << 20;
constexpr std::uint64_t kMaxCost = kMaxBytes + Turns::kMessageCost;

// A party whose calls each ask again as soon as their message is taken, until the party pauses.
struct BusyParty {
  BusyParty(Turns& turns, const std::string& name, int calls, std::uint64_t seed) : random(seed) {
    for (int i = 0; i < calls; ++i) {
      members.emplace_back(turns, name, [this, i] {
        Count();
        members[i].Charge(extra);
        Ask(i);
      });
    }
  }

  void Begin() {
    paused = false;
    for (std::size_t i = 0; i < members.size(); ++i) Ask(i);
  }
  void Ask(std::size_t call) {
    // A message is charged to its party when it is taken, and costs nothing while it waits.
    while (!paused) {
      const std::uint64_t bytes = random() % kMaxBytes;
      waiting.push_back(bytes);
      if (!members[call].Ask(bytes)) return;
      waiting.pop_back();
      cost += bytes + Turns::kMessageCost + extra;
      members[call].Charge(extra);
    }
  }
  // Members of a party are served in the order in which they asked.
  void Count() {
    cost += waiting.front() + Turns::kMessageCost + extra;
    waiting.pop_front();
  }

  std::mt19937_64 random;
  std::deque<Turns::Member> members;
  std::deque<std::uint64_t> waiting;
  std::uint64_t extra = 0;  // additional cost of each message, found when it is taken
  std::uint64_t cost = 0;   // of everything that was taken
  bool paused = false;
};

std::uint64_t Difference(std::uint64_t a, std::uint64_t b) { return std::max(a, b) - std::min(a, b); }

TEST(TurnsTest, WhoIsAloneNeverWaits) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  BusyParty party(turns, "alone", 2, 1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(party.members[0].Ask(kMaxBytes));
    EXPECT_TRUE(party.members[1].Ask(kMaxBytes));
  }
  EXPECT_FALSE(turns.has_waiting());
}

// The bound is that of the paper: a largest message of either party.
TEST(TurnsTest, PartiesGetTheSameWhateverTheNumberOfTheirCalls) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    PartyTags tags;
    Turns turns(tags, kNoTime);
    std::deque<BusyParty> parties;
    for (std::uint64_t i = 0; i < 2 + seed % 4; ++i) {
      parties.emplace_back(turns, "party " + std::to_string(i), static_cast<int>(1 + random() % 64),
                           random());
    }
    for (BusyParty& party : parties) party.Begin();
    for (int i = 0; i < 2000; ++i) {
      turns.Serve();
      for (const BusyParty& party : parties) {
        ASSERT_LE(Difference(party.cost, parties[0].cost), 2 * kMaxCost);
      }
    }
    EXPECT_GT(parties[0].cost, 100 * kMaxCost);
  }
}

TEST(TurnsTest, WhatIsChargedLaterCountsLikeBytes) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  BusyParty plain(turns, "plain", 4, 1);
  BusyParty dear(turns, "dear", 4, 2);
  dear.extra = 8 << 20;
  plain.Begin();
  dear.Begin();
  for (int i = 0; i < 2000; ++i) {
    turns.Serve();
    ASSERT_LE(Difference(plain.cost, dear.cost), 2 * (kMaxCost + dear.extra));
  }
  EXPECT_GT(plain.cost, 100 * kMaxCost);
}

TEST(TurnsTest, SilenceEarnsLittle) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  BusyParty busy(turns, "busy", 8, 1);
  BusyParty seldom(turns, "seldom", 8, 2);
  busy.Begin();
  for (int i = 0; i < 1000; ++i) turns.Serve();
  const std::uint64_t before = busy.cost;
  ASSERT_GT(before, 100 * kMaxCost);
  seldom.Begin();
  for (int i = 0; i < 1000; ++i) turns.Serve();
  EXPECT_LE(Difference(busy.cost - before, seldom.cost), PartyTags::kMaxBehind + 2 * kMaxCost);
}

// One party has calls on both shards, the other has a single call on one of them: the other party gets that
// shard to itself, and so half of the server.
TEST(TurnsTest, APartyOnFewShardsGetsAsMuchOfAllAsAnother) {
  PartyTags tags;
  Turns first(tags, kNoTime);
  Turns second(tags, kNoTime);
  BusyParty greedy_on_first(first, "greedy", 32, 1);
  BusyParty greedy_on_second(second, "greedy", 32, 2);
  BusyParty modest(first, "modest", 1, 3);
  // A party that is alone on a shard never waits there, and would be busy for ever.
  const Turns::Member silent(second, "silent", [] {});
  greedy_on_first.Begin();
  greedy_on_second.Begin();
  modest.Begin();
  for (int i = 0; i < 2000; ++i) {
    first.Serve();
    second.Serve();
  }
  const std::uint64_t greedy = greedy_on_first.cost + greedy_on_second.cost;
  EXPECT_GT(greedy, 100 * kMaxCost);
  EXPECT_GT(static_cast<double>(modest.cost), 0.9 * static_cast<double>(greedy));
  EXPECT_LE(modest.cost, greedy + 2 * kMaxCost) << "nor does it get more";
}

TEST(TurnsTest, AMessageOfWhoHadLessDoesNotWaitForThoseOfOthers) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  BusyParty greedy(turns, "greedy", 64, 1);
  BusyParty modest(turns, "modest", 1, 2);
  greedy.Begin();
  turns.Serve();
  ASSERT_TRUE(turns.has_waiting());
  std::uint64_t cost = 0;
  while (modest.members[0].Ask(kMaxBytes)) cost += kMaxCost;
  EXPECT_GT(cost, 0);
  EXPECT_GT(cost, greedy.cost) << "only now it had more";
  EXPECT_LE(cost, greedy.cost + kMaxCost);
}

TEST(TurnsTest, EventsAreLookedForBetweenTurns) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  int served = 0;
  std::deque<Turns::Member> members;
  members.emplace_back(turns, "another", [] {});
  for (int i = 0; i < 20; ++i) members.emplace_back(turns, "party", [&served] { ++served; });
  for (Turns::Member& member : members) member.Ask(0);
  constexpr int kAtOnce = Turns::kServedAtOnce / Turns::kMessageCost;
  turns.Serve();
  EXPECT_EQ(served, kAtOnce);
  turns.Serve();
  EXPECT_EQ(served, 2 * kAtOnce);
}

TEST(TurnsTest, CallsEndWhileTheyWaitAndInTheirTurns) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  std::vector<int> served;
  std::vector<std::unique_ptr<Turns::Member>> members(5);
  for (int i = 0; i < 5; ++i) {
    members[i] = std::make_unique<Turns::Member>(turns, i == 0 ? "other" : "party", [&, i] {
      served.push_back(i);
      members[i].reset();
      members[3].reset();
    });
  }
  EXPECT_TRUE(members[4]->Ask(0));
  for (int i = 1; i < 4; ++i) EXPECT_FALSE(members[i]->Ask(0));
  members[1].reset();
  turns.Serve();
  EXPECT_EQ(served, std::vector<int>{2});
  EXPECT_FALSE(turns.has_waiting());
}

// Those that wait when the last other party leaves must not be passed by others of their own party.
TEST(TurnsTest, WhoWaitsStaysFirstWhenTheOthersLeave) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  int served = 0;
  auto other = std::make_unique<Turns::Member>(turns, "other", [] {});
  Turns::Member first(turns, "party", [] {});
  Turns::Member second(turns, "party", [&served] { ++served; });
  EXPECT_TRUE(first.Ask(0));
  EXPECT_FALSE(second.Ask(0));
  other.reset();
  EXPECT_FALSE(first.Ask(0));
  turns.Serve();
  EXPECT_EQ(served, 1);
  EXPECT_TRUE(first.Ask(0)) << "alone, and nobody waits";
}

TEST(TurnsTest, WhoIsNextByNowDoesNotPassThoseOfItsParty) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  PartyTags::Tag& elsewhere = tags.Join("other");
  const Turns::Member other(turns, "other", [] {});
  std::vector<int> served;
  std::deque<Turns::Member> members;
  for (int i = 0; i < 3; ++i) {
    members.emplace_back(turns, "party", [&served, i] { served.push_back(i); });
  }
  EXPECT_TRUE(members[0].Ask(kMaxBytes));
  EXPECT_FALSE(members[1].Ask(kMaxBytes));
  tags.Charge(elsewhere, 2 * kMaxCost);
  EXPECT_FALSE(members[2].Ask(kMaxBytes)) << "another one of its party came before";
  while (turns.has_waiting()) turns.Serve();
  EXPECT_EQ(served, (std::vector<int>{1, 2}));
}

TEST(TurnsTest, OthersGetALittleOfWhoeverIsBehind) {
  PartyTags tags;
  Turns turns(tags, kNoTime);
  PartyTags::Tag& elsewhere = tags.Join("greedy");
  BusyParty greedy(turns, "greedy", 4, 1);
  BusyParty modest(turns, "modest", 4, 2);
  greedy.Begin();
  modest.Begin();
  for (int i = 0; i < 10'000; ++i) {
    turns.Serve();
    tags.Charge(elsewhere, 4 * kMaxCost);
  }
  EXPECT_GT(greedy.cost, modest.cost / (2 * Turns::kMaxPassedOver));
  EXPECT_LT(greedy.cost, modest.cost / (Turns::kMaxPassedOver / 4));
}

// One call of a modest party on a shard where others always have messages. The modest party stays far behind
// them, since they get much elsewhere.
class OneInARowTest : public ::testing::Test {
 protected:
  // More than kServedAtOnce, so that one look takes at most one message of the others.
  static constexpr std::uint64_t kLarge = 8 << 20;
  static constexpr std::uint64_t kBytes = 256 << 10;
  static constexpr std::uint64_t kCost = kBytes + Turns::kMessageCost;
  static constexpr std::uint64_t kMaxCostInARow = Turns::kMaxPassedOver * (kLarge + Turns::kMessageCost);

  void Greet() {
    greedy_.emplace_back(turns_, "greedy", [this] { ++greedy_served_; });
    if (greedy_.back().Ask(kLarge)) ++greedy_served_;
  }
  // How many messages of the others one look takes.
  int Served() {
    const int before = greedy_served_;
    turns_.Serve();
    return greedy_served_ - before;
  }
  bool Ask() {
    tags_.Charge(elsewhere_, kLarge);
    return modest_->Ask(kBytes);
  }

  PartyTags tags_;
  PartyTags::Tag& elsewhere_ = tags_.Join("greedy");
  Turns turns_{tags_, kNoTime};
  std::optional<Turns::Member> modest_{std::in_place, turns_, "modest", [] {}};
  std::deque<Turns::Member> greedy_;
  int greedy_served_ = 0;
};

TEST_F(OneInARowTest, AfterMuchOfOnePartyAMessageOfAnotherIsNext) {
  for (int i = 0; i < 10; ++i) Greet();
  ASSERT_TRUE(turns_.has_waiting());
  for (std::uint64_t cost = 0; cost < kMaxCostInARow; cost += kCost) ASSERT_TRUE(Ask()) << cost;
  EXPECT_FALSE(Ask());
  EXPECT_EQ(Served(), 1);
  EXPECT_EQ(Served(), 0) << "it is the modest one's turn again";
  EXPECT_TRUE(Ask());
}

TEST_F(OneInARowTest, WhoAsksMeanwhileTakesNoTimeFromItsFirst) {
  while (!turns_.has_waiting()) Greet();
  for (std::uint64_t cost = 0; cost < kMaxCostInARow; cost += kCost) {
    ASSERT_TRUE(Ask()) << cost;
    Greet();
  }
  EXPECT_FALSE(Ask());
}

TEST_F(OneInARowTest, WhatAPartyHadWhileNobodyWaitedDoesNotCount) {
  const Turns::Member silent(turns_, "greedy", [] {});  // the party is there, but asks for nothing
  for (std::uint64_t cost = 0; cost < 2 * kMaxCostInARow; cost += kCost) ASSERT_TRUE(Ask()) << cost;
  while (!turns_.has_waiting()) Greet();
  EXPECT_TRUE(Ask());
}

// As when only one is behind: none of them is served all the time, but all of them together are.
TEST_F(OneInARowTest, SeveralWhoAreBehindPassOthersOverNoLonger) {
  Turns::Member another(turns_, "another", [] {});
  for (int i = 0; i < 10; ++i) Greet();
  std::uint64_t cost = 0;
  while (cost < 2 * kMaxCostInARow && (cost / kCost % 2 == 0 ? Ask() : another.Ask(kBytes))) cost += kCost;
  EXPECT_GE(cost, kMaxCostInARow);
  EXPECT_LE(cost, kMaxCostInARow + kCost);
  EXPECT_EQ(Served(), 1);
}

TEST_F(OneInARowTest, WhatWaitedBehindOneThatLeftWaitsAnew) {
  for (int i = 0; i < 10; ++i) Greet();
  ASSERT_TRUE(turns_.has_waiting());
  for (std::uint64_t cost = 0; cost < kMaxCostInARow; cost += kCost) ASSERT_TRUE(Ask()) << cost;
  while (turns_.has_waiting() && greedy_.size() > 5) greedy_.pop_front();
  EXPECT_TRUE(turns_.has_waiting());
  EXPECT_TRUE(Ask());
}

// It matters which of the waiting ones leaves: the time counts only for the first of them.
TEST_F(OneInARowTest, OnlyTheFirstThatWaitsTakesItsTimeAlong) {
  for (const bool first_leaves : {false, true}) {
    greedy_.clear();
    greedy_served_ = 0;
    while (!turns_.has_waiting()) Greet();
    Greet();  // behind the one that waits
    while (greedy_.size() > 2) greedy_.pop_front();
    for (std::uint64_t cost = 0; cost < kMaxCostInARow; cost += kCost) ASSERT_TRUE(Ask()) << cost;
    if (first_leaves) {
      greedy_.pop_front();
    } else {
      greedy_.pop_back();
    }
    ASSERT_TRUE(turns_.has_waiting());
    EXPECT_EQ(Ask(), first_leaves);
    while (turns_.has_waiting()) turns_.Serve();
  }
}

TEST_F(OneInARowTest, WhoLeavesAndComesAgainWaitsAnew) {
  Greet();
  while (!turns_.has_waiting()) Greet();
  for (std::uint64_t cost = 0; cost < kMaxCostInARow; cost += kCost) ASSERT_TRUE(Ask()) << cost;
  greedy_.clear();
  Greet();
  EXPECT_TRUE(Ask());
}

}  // namespace
}  // namespace warpfold::server
