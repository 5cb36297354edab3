// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/turns.h"

#include <algorithm>
#include <utility>

namespace warpfold::server {

Turns::Member::Member(Turns& turns, const std::string& party, std::function<void()> on_turn)
    : turns_(turns), party_(turns.parties_.try_emplace(party).first), on_turn_(std::move(on_turn)) {
  Party& own = party_->second;
  if (own.members++ == 0) own.tag = &turns_.tags_.Join(party);
}

Turns::Member::~Member() {
  turns_.waiting_ -=
      std::erase_if(party_->second.waiters, [this](const Waiter& waiter) { return waiter.member == this; });
  if (--party_->second.members > 0) return;
  turns_.tags_.Leave(party_->first);
  if (turns_.last_ == &party_->second) turns_.last_ = nullptr;
  turns_.parties_.erase(party_);
}

bool Turns::Member::Ask(std::uint64_t bytes) {
  if (!turns_.has_waiting() && !turns_.tags_.has_several()) return true;
  Party& party = party_->second;
  const std::uint64_t cost = bytes + kMessageCost;
  if (party.waiters.empty() && turns_.IsNext(party) && !turns_.MustYield(party)) {
    turns_.Take(party, cost);
    return true;
  }
  party.waiters.push_back({.member = this, .cost = cost});
  ++turns_.waiting_;
  return false;
}

void Turns::Serve() {
  for (std::uint64_t served = 0; served < kServedAtOnce && has_waiting();) {
    Party& party = NextWaiting();
    const Waiter next = party.waiters.front();
    party.waiters.pop_front();
    --waiting_;
    Take(party, next.cost);
    served += next.cost;
    // A copy, since the member may end by its turn.
    const std::function<void()> on_turn = next.member->on_turn_;
    on_turn();
  }
}

// Counts a message of the party that is taken now.
void Turns::Take(Party& party, std::uint64_t cost) {
  tags_.Charge(*party.tag, cost);
  if (std::exchange(last_, &party) != &party) in_a_row_ = 0;
  in_a_row_ = waiting_ > party.waiters.size() ? in_a_row_ + cost : 0;
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
  const Party* other = LowestWaiting(&party);
  return other != nullptr && in_a_row_ >= kMostInARow * other->waiters.front().cost;
}

// The party that has had least of those with waiters; null if there is none.
Turns::Party* Turns::LowestWaiting(const Party* except) {
  Party* lowest = nullptr;
  for (auto& [name, party] : parties_) {
    if (party.waiters.empty() || &party == except) continue;
    if (lowest == nullptr || tags_.Start(*party.tag) < tags_.Start(*lowest->tag)) lowest = &party;
  }
  return lowest;
}

Turns::Party& Turns::NextWaiting() {
  Party& lowest = *LowestWaiting();
  return MustYield(lowest) ? *LowestWaiting(&lowest) : lowest;
}

}  // namespace warpfold::server
