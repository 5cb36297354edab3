// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages that a shard's thread expects, and for which it holds others (server/core/turns.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "server/core/turns.h"

namespace warpfold::server {
namespace {

// One call of a modest party on a shard where others always have messages; it begins far behind them.
class ExpectedMessagesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kLarge = 2 * Turns::kFarBehind;
  // One message of the modest one gives credit for kPatience, and little more.
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
  // How many messages of the others are taken by one look, so much later.
  int Served(absl::Duration after = {}) {
    const int before = greedy_served_;
    now_ += after;
    turns_.Serve();
    return greedy_served_ - before;
  }
  // The modest one sends a message, which is taken, and its next one is expected.
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
  ASSERT_GT(credit_of_one, Turns::kLeastPatience);
  ASSERT_LT(credit_of_one, Turns::kPatience);
  Send(little);
  EXPECT_EQ(Served(), 0);
  EXPECT_EQ(turns_.held_until(), now_ + credit_of_one);
}

TEST_F(ExpectedMessagesTest, WhoSendsLittleIsNotExpected) {
  const std::uint64_t little = Turns::kLeastPatience / Turns::kHeldPerByte / 10;
  for (int i = 0; i < 10; ++i) {
    Send(little);
    EXPECT_EQ(Served(), 1) << i;
  }
  // What a message costs the thread is not what has come.
  ASSERT_TRUE(modest_->Ask(std::uint64_t{1} << 20, 0));
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
  for (; credit + credit_of_one < Turns::kLeastPatience; ++unexpected) {
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
  EXPECT_EQ(tags_.Start(own) - before, (Turns::kPatience + Turns::kLeastPatience) / Turns::kHeldPerByte);
}

TEST_F(ExpectedMessagesTest, CreditIsKeptForAFewMessages) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(modest_->Ask(kBytes));
  int held = 0;
  for (modest_->Expect(); held < 100 && Served() == 0; ++held) {
    // It comes at the last moment, with nothing in it.
    now_ += Turns::kPatience;
    ASSERT_TRUE(modest_->Ask(0));
    modest_->Expect();
  }
  EXPECT_EQ(held, Turns::kMostCredit / Turns::kPatience);
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

// A third party that says nothing has had less than both, so that nobody's message is taken at once.
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

// Its message is there, and waits behind those of others who are overdue.
TEST_F(ExpectedMessagesTest, OthersGetALittleAllTheSame) {
  PartyTags::Tag& elsewhere = tags_.Join("greedy");
  int served = 0;
  std::uint64_t cost = 0;
  while (served == 0 && cost <= 2 * Turns::kMostPassedOver * (kLarge + Turns::kMessageCost)) {
    tags_.Charge(elsewhere, kLarge);
    Send();
    cost += kBytes + Turns::kMessageCost;
    served = Served();
  }
  EXPECT_EQ(served, 1);
  EXPECT_GE(cost, Turns::kMostPassedOver * (kLarge + Turns::kMessageCost));
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

// It has been passed over for long, so that it was not held.
TEST_F(ExpectedMessagesTest, NobodyIsHeldOnceTheLastThatWaitedIsTaken) {
  greedy_.clear();
  for (greedy_served_ = 0; !turns_.has_waiting();) Greet();
  const int before = greedy_served_;
  Turns::Member another(turns_, "another", [] {});
  Send();
  EXPECT_EQ(Served(), 0);
  ASSERT_TRUE(another.Ask(Turns::kMostPassedOver * (kLarge + Turns::kMessageCost)));
  EXPECT_NE(turns_.held_until(), std::nullopt);
  EXPECT_EQ(Served(), 1);
  EXPECT_EQ(greedy_served_, before + 1);
  EXPECT_EQ(turns_.held_until(), std::nullopt);
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

// How a stream sends: how long a message keeps the thread busy, in how many pieces it comes, how long each of
// them is on its way once the thread has received the one before, and keeps the thread.
struct Pace {
  std::uint64_t bytes;
  absl::Duration taken;
  int pieces;
  absl::Duration pause;
  absl::Duration received;
};
constexpr Pace kLargeMessages{.bytes = 1 << 20,
                              .taken = absl::Milliseconds(1),
                              .pieces = 5,
                              .pause = absl::Microseconds(40),
                              .received = absl::Microseconds(60)};
constexpr Pace kSmallMessages{.bytes = 0,
                              .taken = absl::Microseconds(10),
                              .pieces = 1,
                              .pause = absl::Microseconds(150),
                              .received = absl::Microseconds(5)};
// Each comes just too late, or at the last moment.
constexpr Pace kLateMessages{.bytes = 1 << 20,
                             .taken = absl::Milliseconds(1),
                             .pieces = 1,
                             .pause = absl::Microseconds(2100),
                             .received = absl::Microseconds(60)};
constexpr Pace kLazyMessages{.bytes = 1 << 20,
                             .taken = absl::Microseconds(50),
                             .pieces = 1,
                             .pause = absl::Microseconds(1900),
                             .received = absl::Microseconds(60)};

// A shard's thread in its own time, with one stream of a modest party and four of a greedy one, which has
// what fifteen other shards can do beside.
class OneOfManyShards {
 public:
  explicit OneOfManyShards(const Pace& modest) : modest_(modest) {
    AddStream("modest");
    for (int i = 0; i < 4; ++i) AddStream("greedy");
  }

  // For which part of the time the thread receives and takes messages of each party.
  struct Shares {
    double modest;
    double greedy;
  };
  Shares Run(absl::Duration time) {
    const absl::Time end = now_ + time;
    for (absl::Time tick = now_; now_ < end;) {
      if (now_ >= tick) {
        turns_.OnTick();
        tick += absl::Milliseconds(50);
      }
      now_ += absl::Microseconds(10);
      ReceiveAll();
      if (whole_.empty()) {
        turns_.Serve();
      } else {
        const std::size_t number = whole_.front();
        whole_.pop_front();
        if (streams_[number].member->Ask(PaceOf(number).bytes)) Take(number);
      }
    }
    return {.modest = Share(0, 1, time), .greedy = Share(1, streams_.size(), time)};
  }

 private:
  static constexpr int kOtherShards = 15;
  struct Stream {
    std::unique_ptr<Turns::Member> member;
    absl::Time next = absl::UnixEpoch();  // when its next piece comes
    int pieces = 0;                       // of its next message, that have come
    absl::Duration served = {};
  };

  void AddStream(const char* party) {
    const std::size_t number = streams_.size();
    streams_.push_back(
        {.member = std::make_unique<Turns::Member>(turns_, party, [this, number] { Take(number); })});
  }

  const Pace& PaceOf(std::size_t number) const { return number == 0 ? modest_ : kLargeMessages; }

  double Share(std::size_t first, std::size_t end, absl::Duration time) const {
    absl::Duration served;
    for (std::size_t i = first; i < end; ++i) served += streams_[i].served;
    return absl::FDivDuration(served, time);
  }

  void Spend(std::size_t number, absl::Duration time) {
    now_ += time;
    streams_[number].served += time;
    const auto nanoseconds = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(time));
    tags_.Charge(greedy_, kOtherShards * nanoseconds);
  }

  // One look at all sockets: a piece of each that has one.
  void ReceiveAll() {
    for (std::size_t number = 0; number < streams_.size(); ++number) {
      Stream& stream = streams_[number];
      if (stream.next > now_) continue;
      const Pace& pace = PaceOf(number);
      Spend(number, pace.received);
      stream.next = now_ + pace.pause;
      if (++stream.pieces < pace.pieces) continue;
      stream.pieces = 0;
      stream.next = absl::InfiniteFuture();
      whole_.push_back(number);
    }
  }

  void Take(std::size_t number) {
    Spend(number, PaceOf(number).taken);
    streams_[number].next = now_ + PaceOf(number).pause;
    streams_[number].member->Expect();
  }

  const Pace& modest_;
  PartyTags tags_;
  PartyTags::Tag& greedy_ = tags_.Join("greedy");
  absl::Time now_ = absl::UnixEpoch();
  const Clock clock_ = [this] { return now_; };
  Turns turns_{tags_, clock_};
  std::vector<Stream> streams_;
  std::deque<std::size_t> whole_;  // streams whose message is whole, and has not been seen
};

TEST(OneStreamTest, HasMostOfItsShardWhereItsPartyHasNoOther) {
  const auto [modest, greedy] = OneOfManyShards(kLargeMessages).Run(absl::Seconds(2));
  EXPECT_GT(modest, 0.75) << "it would be a fifth";
  EXPECT_GT(greedy, 0.04) << "a seventeenth, less than a tenth of the time in which the thread waits";
}

TEST(OneStreamTest, DoesNotStopTheOthersWithSmallMessages) {
  const auto [modest, greedy] = OneOfManyShards(kSmallMessages).Run(absl::Seconds(2));
  EXPECT_GT(greedy, 0.9);
}

TEST(OneStreamTest, DoesNotStopTheOthersWithMessagesThatComeTooLate) {
  const auto [modest, greedy] = OneOfManyShards(kLateMessages).Run(absl::Seconds(2));
  EXPECT_GT(modest, 0.2);
  EXPECT_GT(greedy, 0.4);
}

// It pays for that with bytes, and the others get a part of what counts.
TEST(OneStreamTest, LeavesALittleToTheOthersWithMessagesThatComeAtTheLastMoment) {
  const auto [modest, greedy] = OneOfManyShards(kLazyMessages).Run(absl::Seconds(2));
  EXPECT_GT(greedy, 0.03);
}

}  // namespace
}  // namespace warpfold::server
