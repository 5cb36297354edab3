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
  turns_.parties_.erase(party_);
}

bool Turns::Member::Ask(std::uint64_t bytes) {
  if (!turns_.has_waiting() && !turns_.tags_.has_several()) return true;
  Party& party = party_->second;
  const std::uint64_t cost = bytes + kMessageCost;
  if (party.waiters.empty() && turns_.IsNext(party)) {
    turns_.tags_.Charge(*party.tag, cost);
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
    tags_.Charge(*party.tag, next.cost);
    served += next.cost;
    // A copy, since the member may end by its turn.
    const std::function<void()> on_turn = next.member->on_turn_;
    on_turn();
  }
}

// Whether no other party of this shard has had less, be it that its messages wait or are yet to come.
bool Turns::IsNext(const Party& party) const {
  const std::uint64_t start = tags_.Start(*party.tag);
  return std::none_of(parties_.begin(), parties_.end(),
                      [this, start](const auto& other) { return tags_.Start(*other.second.tag) < start; });
}

Turns::Party& Turns::NextWaiting() {
  Party* next = nullptr;
  for (auto& [name, party] : parties_) {
    if (party.waiters.empty()) continue;
    if (next == nullptr || tags_.Start(*party.tag) < tags_.Start(*next->tag)) next = &party;
  }
  return *next;
}

}  // namespace warpfold::server
