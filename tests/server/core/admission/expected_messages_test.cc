// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages that a shard's thread expects, and for which it delays others (server/core/admission/turns.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "server/core/admission/turns.h"

namespace warpfold::server {
namespace {

// One call of a modest party on a shard where others always have messages; it starts far behind them.
class ExpectedMessagesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kLarge = 2 * Turns::kFarBehind;
  // One message of the modest party gives credit for kPatience, and little more.
  static constexpr std::uint64_t kBytes = 768 << 10;

  ExpectedMessagesTest() {
    for (int i = 0; i < 1000; ++i) Greet();
    while (greedy_served_ < 5) Served();
    now_ += absl::Seconds(1);
  }

  void Greet() {
    greedy_.emplace_back(turns_, "greedy", [this] { ++greedy_served_; });
    if (greedy_.back().Ask(kLarge)) ++greedy_served_;
  }
  // How many messages of the others one look takes, this much later.
  int Served(absl::Duration after = {}) {
    const int before = greedy_served_;
    now_ += after;
    turns_.Serve();
    return greedy_served_ - before;
  }
  // The modest party sends a message, which is taken, and its next one is expected.
  void Send(std::uint64_t bytes = kBytes) {
    ASSERT_TRUE(modest_->Ask(bytes));
    modest_->Expect();
  }

  PartyTags tags_;
  absl::Time now_ = absl::UnixEpoch();
  const Clock clock_ = [this] { return now_; };
  std::optional<Turns> only_{std::in_place, tags_, clock_};
  Turns& turns_ = *only_;
  std::optional<Turns::Member> modest_{std::in_place, turns_, "modest", [] {}};
  std::deque<Turns::Member> greedy_;
  int greedy_served_ = 0;
};

TEST_F(ExpectedMessagesTest, OthersAreHeldUntilTheNextMessageOfWhoIsFarBehind) {
  for (int i = 0; i < 10; ++i) {
    Send();
    EXPECT_EQ(turns_.held_until(), std::nullopt) << "nobody has looked";
    EXPECT_EQ(Served(), 0);
    EXPECT_EQ(turns_.held_until(), now_ + Turns::kPatience);
    EXPECT_EQ(Served(Turns::kPatience / 2), 0);
    EXPECT_EQ(Served(Turns::kPatience / 4), 0);
  }
  Send();
  EXPECT_EQ(turns_.held_until(), std::nullopt) << "it has come";
}

TEST_F(ExpectedMessagesTest, NobodyIsHeldForLonger) {
  Send();
  EXPECT_EQ(Served(), 0);
  EXPECT_EQ(Served(Turns::kPatience - absl::Nanoseconds(1)), 0);
  EXPECT_EQ(Served(absl::Nanoseconds(1)), 1);
  EXPECT_EQ(turns_.held_until(), std::nullopt);
  EXPECT_EQ(Served(), 1) << "nor for another message";
}

TEST_F(ExpectedMessagesTest, ATickEndsNoHold) {
  Send();
  modest_.reset();
  EXPECT_EQ(Served(), 0);
  const std::optional<absl::Time> until = turns_.held_until();
  now_ += Turns::kPatience;
  turns_.OnTick();
  EXPECT_EQ(turns_.held_until(), until);
  EXPECT_EQ(Served(), 1);
}

TEST_F(ExpectedMessagesTest, PatienceBeginsWhenTheClientCanSend) {
  Send();
  EXPECT_EQ(Served(Turns::kPatience), 1) << "the thread was busy meanwhile";
}

TEST_F(ExpectedMessagesTest, NothingIsExpectedBeforeTheClientCanSend) {
  ASSERT_TRUE(modest_->Ask(kBytes));
  EXPECT_EQ(Served(), 1) << "it waits for a slot, perhaps";
  modest_->Expect();
  EXPECT_EQ(Served(), 0);
}

TEST_F(ExpectedMessagesTest, NobodyIsHeldForLongerThanTheBytesThatCame) {
  constexpr std::uint64_t little = 400 << 10;
  const absl::Duration credit_of_one = little * Turns::kHeldPerByte;
  ASSERT_GT(credit_of_one, Turns::kMinPatience);
  ASSERT_LT(credit_of_one, Turns::kPatience);
  Send(little);
  EXPECT_EQ(Served(), 0);
  EXPECT_EQ(turns_.held_until(), now_ + credit_of_one);
}

TEST_F(ExpectedMessagesTest, WhoSendsLittleIsNotExpected) {
  const std::uint64_t little = Turns::kMinPatience / Turns::kHeldPerByte / 10;
  for (int i = 0; i < 10; ++i) {
    Send(little);
    EXPECT_EQ(Served(), 1) << i;
  }
  // The cost of a message to the thread is not the number of bytes that came.
  ASSERT_TRUE(modest_->Ask({.costs_bytes = std::uint64_t{1} << 20, .bytes = 0, .kind = Turns::Kind::kLight}));
  modest_->Expect();
  EXPECT_EQ(Served(), 1);
  for (int i = 0; i < 2; ++i) Send(little);
  EXPECT_EQ(Served(), 0) << "it all counts";
}

TEST_F(ExpectedMessagesTest, TimeInWhichNothingCameCountsSeveralTimes) {
  Send();
  EXPECT_EQ(Served(), 0);
  EXPECT_EQ(Served(Turns::kPatience), 1);
  const absl::Duration credit_of_one = std::int64_t{kBytes} * Turns::kHeldPerByte;
  absl::Duration credit = credit_of_one - Turns::kInVainFactor * Turns::kPatience;
  int unexpected = 0;
  for (; credit + credit_of_one < Turns::kMinPatience; ++unexpected) {
    credit += credit_of_one;
    Send();
    EXPECT_EQ(Served(), 1) << unexpected;
  }
  EXPECT_GT(unexpected, 0);
  Send();
  EXPECT_EQ(Served(), 0);
}

// The machine was suspended, say.
TEST_F(ExpectedMessagesTest, TimeInWhichTheThreadDidNotRunIsNotCounted) {
  const PartyTags::Tag& own = tags_.Join("modest");
  Send();
  EXPECT_EQ(Served(), 0);
  const std::uint64_t before = tags_.Start(own);
  now_ += absl::Hours(1);
  modest_->ExpectNothing();
  EXPECT_EQ(tags_.Start(own) - before, (Turns::kPatience + Turns::kMinPatience) / Turns::kHeldPerByte);
}

TEST_F(ExpectedMessagesTest, CreditIsKeptForAFewMessages) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(modest_->Ask(kBytes));
  int held = 0;
  for (modest_->Expect(); held < 100 && Served() == 0; ++held) {
    // The message comes at the last moment, and is empty.
    now_ += Turns::kPatience;
    ASSERT_TRUE(modest_->Ask(0));
    modest_->Expect();
  }
  EXPECT_EQ(held, Turns::kMaxCredit / Turns::kPatience);
}

TEST_F(ExpectedMessagesTest, WhatOthersAreHeldForCountsAsIfItHadCome) {
  const PartyTags::Tag& own = tags_.Join("modest");
  Send();
  EXPECT_EQ(Served(), 0);
  const std::uint64_t before = tags_.Start(own);
  now_ += Turns::kPatience / 2;
  modest_->ExpectNothing();
  EXPECT_EQ(tags_.Start(own) - before, Turns::kPatience / 2 / Turns::kHeldPerByte);
}

TEST_F(ExpectedMessagesTest, CallsThatBeginAndEndGainNoTime) {
  for (int i = 0; i < 3; ++i) Send();
  EXPECT_EQ(Served(), 0);
  const std::optional<absl::Time> until = turns_.held_until();
  now_ += Turns::kPatience / 2;
  Turns::Member(turns_, "modest", [] {}).Expect();
  EXPECT_EQ(turns_.held_until(), until);
  EXPECT_EQ(Served(Turns::kPatience / 2), 1);
}

TEST_F(ExpectedMessagesTest, WhatHasComeIsNotExpected) {
  Send();
  ASSERT_TRUE(modest_->Ask(kBytes));
  EXPECT_EQ(Served(), 1) << "it waits for a slot, and nobody had looked meanwhile";
  modest_->Expect();
  modest_->ExpectNothing();
  EXPECT_EQ(Served(), 1);
  modest_->Expect();
  EXPECT_EQ(Served(), 0);
  modest_->ExpectNothing();
  EXPECT_EQ(turns_.held_until(), std::nullopt);
  EXPECT_EQ(Served(), 1);
}

TEST_F(ExpectedMessagesTest, AMessageOfTheNextCallIsExpectedToo) {
  Send();
  modest_.reset();
  EXPECT_EQ(Served(), 0);
  modest_.emplace(turns_, "modest", [] {});
  Send();
  EXPECT_EQ(Served(), 0);
}

TEST_F(ExpectedMessagesTest, WhoIsNotFarBehindIsNotExpected) {
  Send();
  PartyTags::Tag& own = tags_.Join("modest");
  const std::uint64_t behind = tags_.Start(tags_.Join("greedy")) - tags_.Start(own);
  ASSERT_GT(behind, Turns::kFarBehind);
  tags_.Charge(own, behind - Turns::kFarBehind);
  EXPECT_EQ(Served(), 0);
  Send(0);
  modest_->Expect();
  EXPECT_EQ(Served(), 1);
}

// A third party that sends nothing has had less than both, so that nobody's message is taken at once.
TEST_F(ExpectedMessagesTest, NobodyIsHeldForWhoHasHadAsMuch) {
  const Turns::Member silent(turns_, "silent", [] {});
  int another_served = 0;
  Turns::Member another(turns_, "another", [&another_served] { ++another_served; });
  Send();
  tags_.Charge(tags_.Join("modest"), 1 << 20);
  tags_.Charge(tags_.Join("another"), 1 << 20);
  EXPECT_EQ(Served(), 0);
  EXPECT_FALSE(another.Ask(kBytes));
  EXPECT_EQ(turns_.held_until(), std::nullopt);
  EXPECT_EQ(Served(), 0);
  EXPECT_EQ(another_served, 1);
  EXPECT_EQ(Served(), 0) << "the modest one is still expected";
}

TEST_F(ExpectedMessagesTest, WhoHasHadLeastIsExpectedFirst) {
  std::deque<Turns::Member> members;
  for (const char* name : {"a", "b", "c"}) members.emplace_back(turns_, name, [] {});
  for (int i = 0; i < 3; ++i) {
    for (Turns::Member& member : members) static_cast<void>(member.Ask(kBytes));
    Served();
  }
  tags_.Charge(tags_.Join("a"), 1 << 20);
  tags_.Charge(tags_.Join("c"), 1 << 20);
  for (Turns::Member& member : members) member.Expect();
  EXPECT_EQ(Served(), 0);
  members[0].ExpectNothing();
  members[2].ExpectNothing();
  EXPECT_NE(turns_.held_until(), std::nullopt) << "it is b";
  members[1].ExpectNothing();
  EXPECT_EQ(turns_.held_until(), std::nullopt);
}

// The message of the modest party is there, and waits behind those of others that are overdue.
TEST_F(ExpectedMessagesTest, OthersGetALittleAllTheSame) {
  PartyTags::Tag& elsewhere = tags_.Join("greedy");
  int served = 0;
  std::uint64_t cost = 0;
  while (served == 0 && cost <= 2 * Turns::kMaxPassedOver * (kLarge + Turns::kMessageCost)) {
    tags_.Charge(elsewhere, kLarge);
    Send();
    cost += kBytes + Turns::kMessageCost;
    served = Served();
  }
  EXPECT_EQ(served, 1);
  EXPECT_GE(cost, Turns::kMaxPassedOver * (kLarge + Turns::kMessageCost));
  EXPECT_EQ(Served(), 0) << "the modest one is expected again";
}

TEST_F(ExpectedMessagesTest, NobodyIsExpectedWhereNobodyCompetes) {
  greedy_.clear();
  now_ += absl::Seconds(1);
  turns_.OnTick();
  for (int i = 0; i < 10; ++i) Send();
  Greet();
  EXPECT_EQ(Served(), 1);
}

TEST_F(ExpectedMessagesTest, WhoIsExpectedCountsAsPresentUntilItIsNot) {
  greedy_.clear();
  PartyTags::Tag& other = tags_.Join("greedy");
  Send();
  modest_.reset();
  EXPECT_TRUE(tags_.has_several());
  turns_.OnTick();
  EXPECT_TRUE(tags_.has_several());
  now_ += Turns::kPatience;
  turns_.OnTick();
  EXPECT_FALSE(tags_.has_several());
  tags_.Charge(other, 0);
  Greet();
}

TEST_F(ExpectedMessagesTest, WhoIsExpectedInVainHasLeft) {
  Send();
  modest_.reset();
  EXPECT_EQ(Served(), 0);
  EXPECT_EQ(Served(Turns::kPatience), 1);
  turns_.OnTick();
  EXPECT_FALSE(tags_.has_several());
}

TEST_F(ExpectedMessagesTest, WhoWasHeldMayLeave) {
  Send();
  EXPECT_EQ(Served(), 0);
  greedy_.clear();
  EXPECT_EQ(turns_.held_until(), std::nullopt);
  for (int i = 0; i < 10; ++i) {
    now_ += absl::Seconds(1);
    Send();
  }
  while (!turns_.has_waiting()) Greet();
  EXPECT_EQ(Served(), 0) << "nothing was waited for in vain";
}

// The other party has been passed over for long, so its message is not delayed. What that message takes is
// not charged to the party that is expected.
TEST_F(ExpectedMessagesTest, AnOverdueMessageEndsTheHold) {
  greedy_.clear();
  while (!turns_.has_waiting()) Greet();
  greedy_.pop_back();
  greedy_.emplace_back(turns_, "greedy", [this] {
    ++greedy_served_;
    now_ += Turns::kPatience / 2;
  });
  ASSERT_FALSE(greedy_.back().Ask(kLarge));
  Turns::Member another(turns_, "another", [] {});
  Send();
  EXPECT_EQ(Served(), 0);
  now_ += Turns::kPatience / 4;
  ASSERT_TRUE(another.Ask(Turns::kMaxPassedOver * (kLarge + Turns::kMessageCost)));
  EXPECT_NE(turns_.held_until(), std::nullopt);
  EXPECT_EQ(Served(), 1);
  EXPECT_EQ(turns_.held_until(), std::nullopt);
  modest_->ExpectNothing();
  modest_->Expect();
  Greet();
  EXPECT_EQ(Served(), 0) << "it has credit left";
}

// Time for which others were delayed in vain is remembered until the next tick.
TEST_F(ExpectedMessagesTest, WhoLeavesDoesNotLoseItsDebt) {
  const auto leaves_and_comes_again = [this] {
    modest_->ExpectNothing();
    modest_.reset();
    modest_.emplace(turns_, "modest", [] {});
    Send();
  };
  Send();
  EXPECT_EQ(Served(), 0);
  EXPECT_EQ(Served(Turns::kPatience), 1);
  leaves_and_comes_again();
  EXPECT_EQ(Served(), 1);
  modest_->ExpectNothing();
  modest_.reset();
  turns_.OnTick();
  modest_.emplace(turns_, "modest", [] {});
  Send();
  EXPECT_EQ(Served(), 0);
}

TEST_F(ExpectedMessagesTest, WhoComesAgainWhileItIsExpectedHasNotComeTwice) {
  for (int i = 0; i < 3; ++i) {
    Send();
    modest_.reset();
    modest_.emplace(turns_, "modest", [] {});
  }
  modest_.reset();
  now_ += Turns::kPatience;
  turns_.OnTick();
  EXPECT_FALSE(tags_.has_several());
}

TEST_F(ExpectedMessagesTest, ShardsThatEndLeaveNobody) {
  Send();
  modest_.reset();
  greedy_.clear();
  static_cast<void>(tags_.Join("stays"));
  EXPECT_TRUE(tags_.has_several());
  only_.reset();
  EXPECT_FALSE(tags_.has_several());
}

}  // namespace
}  // namespace warpfold::server
