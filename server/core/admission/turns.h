// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The fair scheduler of a shard: the order in which its thread processes received messages while several
// tenants ("parties") have calls. In first-come-first-served order, a party with 64 streams would be served
// 64 messages for each message of a party with one stream.
//
// Start-time fair queueing (Goyal, Vin and Cheng, 1996): each party has a tag, which advances with everything
// it sends, and the message of the party with the lowest tag is next. The tags are the same for all shards
// (party_tags.h), so that a party whose calls are on a few shards gets these until it has had as much as the
// others: otherwise a party with fewer calls than there are shards would get only half of each of its shards.
//
// The next message of a stream comes a moment after the last one was taken, and a large one comes in pieces,
// each of which the thread has to receive. If it took another party's message after each piece, one stream
// would get a fifth of its shard. The thread therefore waits briefly for the next message of a party that is
// far behind before it serves others, as an anticipatory disk scheduler waits for the next read (Iyer and
// Druschel, 2001). It may hold them for a few nanoseconds for each byte that has come from that party, and
// the time that it holds them counts as if those bytes had come again: a party that sends little, or nothing,
// holds up nobody. Several parties may hold up others one after the other, each within its credit. ADR 124
// has the figures.
//
// Whichever party is behind, the others get a small part of the shard's thread (kMaxPassedOver): their calls
// go on.
//
// A message that has had its turn may still find no slot free. Until it has one, the party's other messages
// that may need slots, its bulk, get no turn where parties compete. If all had turns they would queue for
// slots. That queue knows no tags and holds nobody back, and on a CPU this thread does the reducing, so that
// it would work for them one after the other. Headers, small arrays and everything that needs no slot are
// light. They get turns meanwhile, and do not queue behind the party's bulk: both kinds get the same share of
// the party's service while both could be taken. ADR 126 has the figures.
//
// Threads: the shard's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/core/admission/party_tags.h"
#include "server/core/clock.h"

namespace warpfold::server {

class Turns {
 public:
  enum class Kind : std::uint8_t { kLight, kBulk };
  // A message that has come.
  struct Arrival {
    std::uint64_t costs_bytes;  // the cost for the thread, as the number of array bytes that cost as much
    std::uint64_t bytes;        // how many bytes have been received
    Kind kind;
  };

  // Each message counts as this many bytes more than it has, for receiving it and sending an answer: in that
  // time the thread could copy and checksum about as many bytes.
  static constexpr std::uint64_t kMessageCost = 64 << 10;
  // The bytes that the thread serves before it looks for events again. One of these events may be a message
  // that is to be served first.
  static constexpr std::uint64_t kServedAtOnce = 256 << 10;
  // A waiting message is overdue once others have been served kMaxPassedOver times what it counts,
  // multiplied by the number of other parties that wait (at least one).
  static constexpr std::uint64_t kMaxPassedOver = 16;
  // Others are held for a party that is far behind: those that would be served instead have had kFarBehind
  // bytes more.
  static constexpr std::uint64_t kFarBehind = 4 << 20;
  // They are held for kPatience at once at most, and not at all for less than kMinPatience: gRPC's queue
  // counts in milliseconds.
  static constexpr absl::Duration kPatience = absl::Milliseconds(2);
  static constexpr absl::Duration kMinPatience = absl::Milliseconds(1);
  // Each byte received from a party earns it kHeldPerByte of waiting credit, up to kMaxCredit. (Over TLS a
  // message may take half of that time to arrive.)
  static constexpr absl::Duration kHeldPerByte = absl::Nanoseconds(3);
  static constexpr absl::Duration kMaxCredit = absl::Milliseconds(8);
  // Waiting without success costs the party kInVainFactor times the wait in credit, so that the thread soon
  // stops waiting for a party that sends too slowly.
  static constexpr int kInVainFactor = 4;

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

    // True: the message is to be taken now; otherwise Serve calls `on_turn`. Not to be called while the
    // member waits.
    bool Ask(const Arrival& message);
    // Bytes of an array.
    bool Ask(std::uint64_t bytes) { return Ask({.costs_bytes = bytes, .bytes = bytes, .kind = Kind::kBulk}); }

    // The message that is taken now costs `bytes` more than Ask was told.
    void Charge(std::uint64_t bytes);

    // Whether the message that was taken last waits for a slot. For a light one this is ignored.
    void SetWaitsForSlot(bool waits);

    // The client has what it needs to send its next message, whether for this call or for its next one.
    void Expect();
    // It has sent something else, or will not send anything.
    void ExpectNothing();

   private:
    friend class Turns;
    Turns& turns_;
    const Parties::iterator party_;
    const std::function<void()> on_turn_;
    Kind kind_ = Kind::kLight;  // of the message that came last
    bool waits_for_slot_ = false;
  };

  // `tags` and `clock` must outlive the turns.
  Turns(PartyTags& tags, const Clock& clock) : tags_(tags), clock_(clock) {}
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  bool has_waiting() const { return waiting_ > 0; }
  // Whether one of the waiting members may have its turn.
  bool has_ready() const;
  // Until when the waiting members are held for a message that is expected; none if they are not. At that
  // time, call Serve.
  std::optional<absl::Time> held_until() const;

  // Calls the members whose turn it is, up to kServedAtOnce; none while a message is expected, or if none is
  // ready.
  void Serve();

  // Forgets parties whose calls have ended and from which nothing is expected, and notices whether there are
  // still several. Call this now and then.
  void OnTick();

 private:
  struct Waiter {
    Member* member;
    std::uint64_t cost;
    std::uint64_t bytes;
  };
  struct Party {
    bool has_waiting() const { return !light.empty() || !bulk.empty(); }
    std::deque<Waiter>& Of(Kind kind) { return kind == Kind::kLight ? light : bulk; }

    std::deque<Waiter> light;  // the one that came first is first
    std::deque<Waiter> bulk;
    std::uint64_t light_cost = 0;  // how much more light messages got than bulk, while both could be taken
    int waiting_for_slots = 0;     // members
    int members = 0;
    PartyTags::Tag* tag = nullptr;
    std::uint64_t passed_over = 0;  // what others got since the party was taken from, or began to wait
    absl::Duration credit;          // how long others may be held for it
    absl::Time expected_until = absl::InfinitePast();
  };
  struct Hold {
    Parties::iterator party;  // whose message is expected
    absl::Time since;
  };

  bool IsNext(const Party& party) const;
  bool MayTakeBulk(const Party& party) const { return party.waiting_for_slots == 0 || !have_several_; }
  // Of which kind the party's next message is; none if none is ready.
  std::optional<Kind> NextOf(const Party& party) const;
  bool MayTakeNow(const Party& party, Kind kind);
  Party* Overdue();
  Party& LowestReady();
  void Take(Party& party, const Waiter& message, Kind kind);
  void Count(Party& party, std::uint64_t cost);
  bool HoldsBack(const Party& next);
  bool IsFarBehind(const Party& party, const Party& next) const;
  Parties::iterator Expected(const Party& instead_of, absl::Time now);
  bool IsHoldOf(Parties::iterator party) const { return hold_.has_value() && hold_->party == party; }
  void LetGo(const Party& party);
  void EndHold(int factor);
  void ForgetIfGone(Parties::iterator party);

  PartyTags& tags_;
  const Clock& clock_;
  Parties parties_;  // those with members, and for a while those of which a message is expected
  std::size_t waiting_ = 0;
  std::optional<Hold> hold_;
  bool have_several_ = false;  // what tags_.has_several() said last: it may change at any time
};

}  // namespace warpfold::server
