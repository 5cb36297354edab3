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
  std::deque<Waiter>& waiters = party_->second.waiters;
  // The party's count of how much has passed it over belongs to its first message, and ends with it.
  if (!waiters.empty() && waiters.front().member == this) party_->second.passed_over = 0;
  turns_.waiting_ -= std::erase_if(waiters, [this](const Waiter& waiter) { return waiter.member == this; });
  if (--party_->second.members > 0) return;
  turns_.tags_.Leave(party_->first);
  turns_.parties_.erase(party_);
}

bool Turns::Member::Ask(std::uint64_t bytes) {
  if (!turns_.has_waiting() && !turns_.tags_.has_several()) return true;
  Party& party = party_->second;
  const std::uint64_t cost = bytes + kMessageCost;
  if (party.waiters.empty() && turns_.IsNext(party) &&
      (!turns_.has_waiting() || turns_.Overdue() == nullptr)) {
    turns_.Take(party, cost);
    return true;
  }
  if (party.waiters.empty()) party.passed_over = 0;
  party.waiters.push_back({.member = this, .cost = cost});
  ++turns_.waiting_;
  return false;
}

void Turns::Serve() {
  for (std::uint64_t served = 0; served < kServedAtOnce && has_waiting();) {
    Party* const overdue = Overdue();
    Party& party = overdue != nullptr ? *overdue : LowestWaiting();
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
  for (auto& [name, other] : parties_) other.passed_over += cost;
  party.passed_over = 0;
}

// Whether no other party of this shard has had less, be it that its messages wait or are yet to come.
bool Turns::IsNext(const Party& party) const {
  const std::uint64_t start = tags_.Start(*party.tag);
  return std::none_of(parties_.begin(), parties_.end(),
                      [this, start](const auto& other) { return tags_.Start(*other.second.tag) < start; });
}

// A party that was passed over for so long that its message is next, however much others are behind; null if
// there is none.
Turns::Party* Turns::Overdue() {
  const auto waits = [](const auto& party) { return !party.second.waiters.empty(); };
  const std::int64_t others = std::count_if(parties_.begin(), parties_.end(), waits) - 1;
  const std::uint64_t most = kMostPassedOver * static_cast<std::uint64_t>(std::max<std::int64_t>(others, 1));
  Party* overdue = nullptr;
  for (auto& [name, party] : parties_) {
    if (party.waiters.empty() || party.passed_over < most * party.waiters.front().cost) continue;
    if (overdue == nullptr || party.passed_over > overdue->passed_over) overdue = &party;
  }
  return overdue;
}

// The party that has had least of those with waiters, of which there is one.
Turns::Party& Turns::LowestWaiting() {
  Party* lowest = nullptr;
  for (auto& [name, party] : parties_) {
    if (party.waiters.empty()) continue;
    if (lowest == nullptr || tags_.Start(*party.tag) < tags_.Start(*lowest->tag)) lowest = &party;
  }
  return *lowest;
}

}  // namespace warpfold::server
