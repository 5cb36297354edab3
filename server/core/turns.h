// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// In which order a shard's thread takes the messages that have come, while calls of several parties are in
// progress. In the order of their coming, a party with 64 streams would get 64 messages for one of a party
// with one stream: its messages are always there, and those of the other have to queue behind them.
//
// Start-time fair queueing (Goyal, Vin and Cheng, 1996): each party has a tag, which what it sends advances,
// and the message of the party with the lowest tag is next. The tags are the same for all shards
// (party_tags.h), so that a party whose calls lie on a few of them has these until it has had as much as the
// others: without that a party with fewer calls than there are shards would get half of each of its shards.
//
// One stream still gets no more than half of its shard: its next message comes a moment after the last one
// was taken, and by then the thread is busy with somebody else's. ADR 117 says why nobody is held for it.
// That its party is behind helps it elsewhere: who has had more leaves the CPU backend's pool to it (ADR
// 122).
//
// Whoever is behind, others get a small part of the shard's thread (kMostPassedOver): their calls go on.
//
// Threads: the shard's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "server/core/party_tags.h"

namespace warpfold::server {

class Turns {
 public:
  // A message counts so many bytes more than it has: the thread receives it and sends an answer, and could
  // copy and checksum about as much in that time.
  static constexpr std::uint64_t kMessageCost = 64 << 10;
  // So much is served before the thread looks for events again, among which may be a message that comes
  // first.
  static constexpr std::uint64_t kServedAtOnce = 256 << 10;
  // A message that waits is taken when others have got so many times what it counts: all of them together, or
  // each of them where several wait with it.
  static constexpr std::uint64_t kMostPassedOver = 16;

 private:
  struct Party;
  using Parties = std::map<std::string, Party>;

 public:
  // A call that takes turns, from its construction to its destruction.
  class Member {
   public:
    // `turns` must outlive the member. `on_turn` may destroy this member and others.
    Member(Turns& turns, const std::string& party, std::function<void()> on_turn);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // A message of so many bytes has come. True: it is to be taken now; otherwise Serve calls `on_turn`.
    // Not while the member waits.
    bool Ask(std::uint64_t bytes);

   private:
    friend class Turns;
    Turns& turns_;
    const Parties::iterator party_;
    const std::function<void()> on_turn_;
  };

  // `tags` must outlive the turns.
  explicit Turns(PartyTags& tags) : tags_(tags) {}

  bool has_waiting() const { return waiting_ > 0; }

  // Calls those whose turn it is, up to kServedAtOnce.
  void Serve();

 private:
  struct Waiter {
    Member* member;
    std::uint64_t cost;
  };
  struct Party {
    std::deque<Waiter> waiters;  // the one that came first is first
    int members = 0;
    PartyTags::Tag* tag = nullptr;
    std::uint64_t passed_over = 0;  // what others got while the first of them has waited
  };

  bool IsNext(const Party& party) const;
  Party* Overdue();
  Party& LowestWaiting();
  void Take(Party& party, std::uint64_t cost);

  PartyTags& tags_;
  Parties parties_;  // those with members
  std::size_t waiting_ = 0;
};

}  // namespace warpfold::server
