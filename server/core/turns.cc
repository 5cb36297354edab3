// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/turns.h"

#include <algorithm>
#include <utility>

namespace warpfold::server {

Turns::Member::Member(Turns& turns, const std::string& party, std::function<void()> on_turn)
    : turns_(turns), party_(turns.Join(party)), on_turn_(std::move(on_turn)) {}

Turns::Member::~Member() {
  turns_.waiting_ -=
      std::erase_if(party_->second.waiters, [this](const Waiter& waiter) { return waiter.member == this; });
  turns_.Leave(party_);
}

bool Turns::Member::Ask(std::uint64_t bytes) {
  if (turns_.expected_.has_value() && turns_.expected_->party == party_) {
    if (turns_.expected_->held_since.has_value()) PartyTags::CameInTime(*party_->second.tag);
    turns_.StopExpecting();
  }
  if (!turns_.has_waiting() && !turns_.tags_.has_several()) return true;
  Party& party = party_->second;
  const std::uint64_t cost = bytes + kMessageCost;
  if (party.waiters.empty() && turns_.IsNext(party) && !turns_.MustYield(party)) {
    turns_.Take(party_, cost);
    return true;
  }
  party.waiters.push_back({.member = this, .cost = cost});
  ++turns_.waiting_;
  return false;
}

Turns::Parties::iterator Turns::Join(const std::string& party) {
  const auto joined = parties_.try_emplace(party).first;
  if (joined->second.members++ == 0) joined->second.tag = &tags_.Join(party);
  return joined;
}

void Turns::Leave(Parties::iterator party) {
  if (--party->second.members > 0) return;
  tags_.Leave(party->first);
  if (last_ == &party->second) last_ = nullptr;
  parties_.erase(party);
}

void Turns::Serve(absl::Time now) {
  for (std::uint64_t served = 0; served < kServedAtOnce && has_waiting();) {
    // After a turn it is later than `now`, so others are held from the next look on.
    if (IsFarBehind() && (served > 0 || Holds(now))) return;
    const auto party = NextWaiting();
    const Waiter next = party->second.waiters.front();
    party->second.waiters.pop_front();
    --waiting_;
    Take(party, next.cost);
    served += next.cost;
    // A copy, since the member may end by its turn.
    const std::function<void()> on_turn = next.member->on_turn_;
    on_turn();
  }
}

// Counts a message of the party that is taken now; its next one may be expected from then on.
void Turns::Take(Parties::iterator party, std::uint64_t cost) {
  StopExpecting();
  tags_.Charge(*party->second.tag, cost);
  if (std::exchange(last_, &party->second) != &party->second) in_a_row_ = 0;
  in_a_row_ = waiting_ > party->second.waiters.size() ? in_a_row_ + cost : 0;
  ++party->second.members;
  expected_ = Expected{.party = party,
                       .patience = std::min(kPatience, static_cast<std::int64_t>(cost) * kPatiencePerByte)};
}

// Whether a message is expected whose party may have others held.
bool Turns::IsFarBehind() {
  if (!expected_.has_value() || MustYield(expected_->party->second)) return false;
  const std::uint64_t start = tags_.Start(*expected_->party->second.tag);
  return tags_.Start(*LowestWaiting()->second.tag) >= start + kFarBehind;
}

// Holds those who wait, or finds that the message that is expected has not come in time.
bool Turns::Holds(absl::Time now) {
  PartyTags::Tag& tag = *expected_->party->second.tag;
  if (!expected_->held_since.has_value() && PartyTags::BeginExpecting(tag)) expected_->held_since = now;
  if (expected_->held_since.has_value()) {
    if (now - *expected_->held_since < expected_->patience) return true;
    PartyTags::DidNotCome(tag);
  }
  StopExpecting();
  return false;
}

void Turns::StopExpecting() {
  if (expected_.has_value()) Leave(std::exchange(expected_, std::nullopt)->party);
}

// Whether no other party of this shard has had less, be it that its messages wait or are yet to come.
bool Turns::IsNext(const Party& party) const {
  const std::uint64_t start = tags_.Start(*party.tag);
  return std::none_of(parties_.begin(), parties_.end(),
                      [this, start](const auto& other) { return tags_.Start(*other.second.tag) < start; });
}

// Whether the party has had so much in a row that a message of another one is next, however far it is behind.
bool Turns::MustYield(const Party& party) {
  if (last_ != &party) return false;
  const auto other = LowestWaiting(&party);
  return other != parties_.end() && in_a_row_ >= kMostInARow * other->second.waiters.front().cost;
}

Turns::Parties::iterator Turns::LowestWaiting(const Party* except) {
  auto lowest = parties_.end();
  for (auto party = parties_.begin(); party != parties_.end(); ++party) {
    if (party->second.waiters.empty() || &party->second == except) continue;
    if (lowest == parties_.end() || tags_.Start(*party->second.tag) < tags_.Start(*lowest->second.tag)) {
      lowest = party;
    }
  }
  return lowest;
}

Turns::Parties::iterator Turns::NextWaiting() {
  const auto lowest = LowestWaiting();
  return MustYield(lowest->second) ? LowestWaiting(&lowest->second) : lowest;
}

}  // namespace warpfold::server
