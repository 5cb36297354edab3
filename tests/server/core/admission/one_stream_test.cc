// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The share of a shard's thread that one stream of a modest party gets beside streams of a greedy one: a
// model of the thread, which receives messages in pieces and takes them in turns
// (server/core/admission/turns.h).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "server/core/admission/turns.h"

namespace warpfold::server {
namespace {

// How a stream sends: how long a message keeps the thread busy, in how many pieces it comes, how long each
// piece is on its way once the thread has received the one before, and how long it keeps the thread.
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
// Each message comes just too late, or at the last moment.
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

// A shard's thread in its own time, with one stream of a modest party and four of a greedy one, which also
// has what fifteen other shards can do.
class OneOfManyShards {
 public:
  explicit OneOfManyShards(const Pace& modest) : modest_(modest) {
    AddStream("modest");
    for (int i = 0; i < 4; ++i) AddStream("greedy");
  }

  // The part of the time in which the thread receives and takes messages of each party.
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
    int pieces = 0;                       // of its next message that have come
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

  // One look at all sockets: receives a piece from each that has one.
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

// The stream pays for that with bytes, and the others get a part of what counts.
TEST(OneStreamTest, LeavesALittleToTheOthersWithMessagesThatComeAtTheLastMoment) {
  const auto [modest, greedy] = OneOfManyShards(kLazyMessages).Run(absl::Seconds(2));
  EXPECT_GT(greedy, 0.03);
}

}  // namespace
}  // namespace warpfold::server
