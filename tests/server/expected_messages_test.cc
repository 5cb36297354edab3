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
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/core/turns.h"

namespace warpfold::server {
namespace {

// One call of a modest party on a shard where others always have messages; it begins far behind them.
class ExpectedMessagesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kLarge = 2 * Turns::kFarBehind;
  // Enough for the longest patience.
  static constexpr std::uint64_t kBytes = 256 << 10;
  // By how much the next message of the others starts later than that of the modest one.
  static constexpr std::uint64_t kLead = PartyTags::kMostBehind + kLarge + Turns::kMessageCost;

  ExpectedMessagesTest() {
    for (int i = 0; i < 1000; ++i) Greet();
    while (greedy_served_ < 5) ServedAfter(2 * Turns::kPatience);
  }

  void Greet() {
    greedy_.emplace_back(turns_, "greedy", [this] { ++greedy_served_; });
    if (greedy_.back().Ask(kLarge)) ++greedy_served_;
  }
  // How many messages of the others are taken by one look, so much later.
  int ServedAfter(absl::Duration time) {
    const int before = greedy_served_;
    turns_.Serve(now_ += time);
    return greedy_served_ - before;
  }
  bool Ask(std::uint64_t bytes = kBytes) { return modest_->Ask(bytes); }
  // How many messages of the modest one are taken until others are held for the next, which comes too late.
  int TakenUntilOneIsMissed() {
    int asked = 0;
    do {
      EXPECT_TRUE(Ask());
      ++asked;
    } while (ServedAfter(absl::ZeroDuration()) > 0);
    EXPECT_EQ(ServedAfter(Turns::kPatience), 1);
    return asked;
  }

  PartyTags tags_;
  Turns turns_{tags_};
  absl::Time now_ = absl::UnixEpoch();
  std::optional<Turns::Member> modest_{std::in_place, turns_, "modest", [] {}};
  std::deque<Turns::Member> greedy_;
  int greedy_served_ = 0;
};

TEST_F(ExpectedMessagesTest, OthersAreHeldUntilTheNextMessageOfWhoIsFarBehind) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Ask()) << i;
    EXPECT_EQ(ServedAfter(absl::Seconds(1)), 0) << "patience begins with the first look";
    EXPECT_EQ(ServedAfter(Turns::kPatience / 10), 0);
  }
}

TEST_F(ExpectedMessagesTest, NobodyIsHeldForLonger) {
  ASSERT_TRUE(Ask());
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
  EXPECT_EQ(ServedAfter(Turns::kPatience - absl::Nanoseconds(1)), 0);
  EXPECT_EQ(ServedAfter(absl::Nanoseconds(1)), 1);
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 1) << "nor for another message";
}

TEST_F(ExpectedMessagesTest, ForASmallMessageOthersAreHeldForLess) {
  ASSERT_TRUE(Ask(0));
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
  const absl::Duration patience = Turns::kMessageCost * Turns::kPatiencePerByte;
  EXPECT_EQ(ServedAfter(patience - absl::Nanoseconds(1)), 0);
  EXPECT_EQ(ServedAfter(absl::Nanoseconds(1)), 1);
}

TEST_F(ExpectedMessagesTest, AMessageOfTheNextCallIsExpectedToo) {
  ASSERT_TRUE(Ask());
  modest_.reset();
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
  modest_.emplace(turns_, "modest", [] {});
  EXPECT_TRUE(Ask());
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
}

TEST_F(ExpectedMessagesTest, CallsOfWhoSendsNothingChangeNothing) {
  const Turns::Member silent(turns_, "silent", [] {});
  ASSERT_TRUE(Ask());
  ASSERT_FALSE(Ask(0)) << "somebody else has had less";
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0) << "it was the modest one's turn";
  EXPECT_EQ(ServedAfter(absl::Seconds(1)), 0) << "patience begins with the look after the turn";
  EXPECT_EQ(ServedAfter(Turns::kPatience), 1);
}

TEST_F(ExpectedMessagesTest, WhoDoesNotComeIsExpectedMoreAndMoreSeldom) {
  for (const int unexpected : {0, 2, 4, 8, 16, 32, 64, 64})
    EXPECT_EQ(TakenUntilOneIsMissed(), unexpected + 1);
}

TEST_F(ExpectedMessagesTest, WhoComesInTimeAgainIsExpectedAsBefore) {
  for (const int unexpected : {0, 2, 4, 8}) EXPECT_EQ(TakenUntilOneIsMissed(), unexpected + 1);
  while (ServedAfter(absl::ZeroDuration()) > 0) ASSERT_TRUE(Ask());
  // It is held for, and comes.
  EXPECT_EQ(TakenUntilOneIsMissed(), 1);
  EXPECT_EQ(TakenUntilOneIsMissed(), 3);
}

TEST_F(ExpectedMessagesTest, WhatNobodyWasHeldForDidNotComeInTime) {
  EXPECT_EQ(TakenUntilOneIsMissed(), 1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Ask());
    ASSERT_TRUE(Ask()) << "nobody looked meanwhile";
  }
  EXPECT_EQ(TakenUntilOneIsMissed(), 3);
  EXPECT_EQ(TakenUntilOneIsMissed(), 5);
}

TEST_F(ExpectedMessagesTest, WhoIsNotFarBehindIsNotExpected) {
  ASSERT_TRUE(Ask(kLead - Turns::kFarBehind - Turns::kMessageCost));
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
  ASSERT_TRUE(Ask());
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 1);
}

TEST_F(ExpectedMessagesTest, WhoIsServedMeanwhileIsExpectedInstead) {
  Turns::Member another(turns_, "another", [] {});
  ASSERT_TRUE(Ask());
  ASSERT_TRUE(another.Ask(kBytes));
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
  ASSERT_TRUE(Ask());
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0) << "now for the modest one";
}

TEST_F(ExpectedMessagesTest, AfterMuchOfOnePartyAMessageOfAnotherIsNext) {
  PartyTags::Tag& elsewhere = tags_.Join("greedy");
  std::uint64_t cost = 0;
  for (; cost < Turns::kMostInARow * (kLarge + Turns::kMessageCost); cost += kBytes + Turns::kMessageCost) {
    tags_.Charge(elsewhere, kLarge);
    ASSERT_TRUE(Ask()) << cost;
  }
  EXPECT_FALSE(Ask());
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 1);
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0) << "it is the modest one's turn again";
  ASSERT_TRUE(Ask());
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
}

TEST_F(ExpectedMessagesTest, AfterMuchOfOnePartyItsNextMessageIsNotExpected) {
  PartyTags::Tag& elsewhere = tags_.Join("greedy");
  for (std::uint64_t cost = 0; cost < Turns::kMostInARow * (kLarge + Turns::kMessageCost);
       cost += kBytes + Turns::kMessageCost) {
    tags_.Charge(elsewhere, kLarge);
    ASSERT_TRUE(Ask()) << cost;
  }
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 1);
}

TEST_F(ExpectedMessagesTest, WhatAPartyHadWhileNobodyWaitedDoesNotCount) {
  greedy_.clear();
  PartyTags::Tag& elsewhere = tags_.Join("greedy");
  for (int i = 0; i < 1000; ++i) {
    tags_.Charge(elsewhere, kLarge);
    ASSERT_TRUE(Ask());
  }
  Greet();
  EXPECT_TRUE(Ask());
}

TEST_F(ExpectedMessagesTest, NobodyIsExpectedWhereNobodyCompetes) {
  greedy_.clear();
  turns_.StopExpecting();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Ask());
  Greet();
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 1);
}

TEST_F(ExpectedMessagesTest, WhoIsExpectedCountsAsPresentUntilItIsNot) {
  ASSERT_TRUE(Ask());
  modest_.reset();
  EXPECT_TRUE(tags_.has_several());
  turns_.StopExpecting();
  EXPECT_FALSE(tags_.has_several());
}

TEST_F(ExpectedMessagesTest, WhoIsExpectedInVainHasLeft) {
  ASSERT_TRUE(Ask());
  modest_.reset();
  EXPECT_EQ(ServedAfter(absl::ZeroDuration()), 0);
  EXPECT_EQ(ServedAfter(Turns::kPatience), 1);
  greedy_.clear();
  turns_.StopExpecting();
  const Turns::Member alone(turns_, "alone", [] {});
  EXPECT_FALSE(tags_.has_several());
}

TEST(TurnsEndTest, ShardsThatEndLeaveNobody) {
  PartyTags tags;
  const PartyTags::Tag& stays = tags.Join("stays");
  {
    Turns turns(tags);
    EXPECT_TRUE(Turns::Member(turns, "party", [] {}).Ask(0));
    EXPECT_TRUE(tags.has_several());
  }
  EXPECT_FALSE(tags.has_several());
  EXPECT_EQ(tags.Start(stays), 0);
}

// How a stream sends: how long a message keeps the thread busy, and how soon the next one comes then.
struct Pace {
  std::uint64_t bytes;
  absl::Duration taken;
  absl::Duration pause;
};
constexpr Pace kLargeMessages{
    .bytes = 1 << 20, .taken = absl::Milliseconds(1), .pause = absl::Microseconds(100)};
constexpr Pace kSmallMessages{.bytes = 0, .taken = absl::Microseconds(10), .pause = absl::Microseconds(50)};

// A shard's thread in its own time, with one stream of a modest party and four of a greedy one, which has
// what fifteen other shards can do beside.
class OneOfManyShards {
 public:
  explicit OneOfManyShards(const Pace& modest) : modest_(modest) {
    streams_.push_back({.member = std::make_unique<Turns::Member>(turns_, "modest", [this] { Take(0); })});
    for (std::size_t i = 1; i <= 4; ++i) {
      streams_.push_back(
          {.member = std::make_unique<Turns::Member>(turns_, "greedy", [this, i] { Take(i); })});
    }
  }

  // Which part of the time the thread takes messages of each party.
  struct Shares {
    double modest;
    double greedy;
  };
  Shares Run(absl::Duration time) {
    const absl::Time end = now_ + time;
    for (absl::Time tick = now_; now_ < end;) {
      if (now_ >= tick) {
        turns_.StopExpecting();
        tick += absl::Milliseconds(50);
      }
      now_ += absl::Microseconds(10);
      if (Stream* stream = NextThatCame(); stream != nullptr) {
        stream->next = absl::InfiniteFuture();
        const auto number = static_cast<std::size_t>(stream - streams_.data());
        if (stream->member->Ask(PaceOf(number).bytes)) Take(number);
      } else if (turns_.has_waiting()) {
        turns_.Serve(now_);
      }
    }
    return {.modest = Share(0, 1, time), .greedy = Share(1, streams_.size(), time)};
  }

 private:
  static constexpr int kOtherShards = 15;
  struct Stream {
    std::unique_ptr<Turns::Member> member;
    absl::Time next = absl::UnixEpoch();  // when its next message comes
    absl::Duration taken = {};
  };

  const Pace& PaceOf(std::size_t number) const { return number == 0 ? modest_ : kLargeMessages; }

  double Share(std::size_t first, std::size_t end, absl::Duration time) const {
    absl::Duration taken;
    for (std::size_t i = first; i < end; ++i) taken += streams_[i].taken;
    return absl::FDivDuration(taken, time);
  }

  Stream* NextThatCame() {
    const auto next = std::min_element(streams_.begin(), streams_.end(),
                                       [](const Stream& a, const Stream& b) { return a.next < b.next; });
    return next->next <= now_ ? &*next : nullptr;
  }

  void Take(std::size_t number) {
    const Pace& pace = PaceOf(number);
    now_ += pace.taken;
    const auto nanoseconds = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(pace.taken));
    tags_.Charge(greedy_, kOtherShards * nanoseconds);
    streams_[number].taken += pace.taken;
    streams_[number].next = now_ + pace.pause;
  }

  const Pace& modest_;
  PartyTags tags_;
  PartyTags::Tag& greedy_ = tags_.Join("greedy");
  Turns turns_{tags_};
  absl::Time now_ = absl::UnixEpoch();
  std::vector<Stream> streams_;
};

TEST(OneStreamTest, HasMostOfItsShardWhereItsPartyHasNoOther) {
  const auto [modest, greedy] = OneOfManyShards(kLargeMessages).Run(absl::Seconds(2));
  EXPECT_GT(modest, 0.8) << "it would be a half";
  EXPECT_GT(greedy, 0.04) << "a seventeenth, less than a tenth of the time in which the thread waits";
}

TEST(OneStreamTest, DoesNotStopTheOthersWithSmallMessages) {
  const auto [modest, greedy] = OneOfManyShards(kSmallMessages).Run(absl::Seconds(2));
  EXPECT_GT(modest, 0.05);
  EXPECT_GT(greedy, 0.04);
}

}  // namespace
}  // namespace warpfold::server
