// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/turns.h"

#include <utility>

namespace warpfold::server {

Turns::Member::Member(Turns& turns, const std::string& party, std::function<void()> on_turn)
    : turns_(turns), party_(turns.parties_.try_emplace(party).first), on_turn_(std::move(on_turn)) {
  ++party_->second.members;
}

Turns::Member::~Member() {
  turns_.waiting_ -=
      std::erase_if(party_->second.waiters, [this](const Waiter& waiter) { return waiter.member == this; });
  if (--party_->second.members == 0) turns_.parties_.erase(party_);
}

bool Turns::Member::Ask(std::uint64_t bytes) {
  if (turns_.parties_.size() == 1 && !turns_.has_waiting()) return true;
  Party& party = party_->second;
  const std::uint64_t cost = bytes + kMessageCost;
  if (party.tag <= turns_.tag_) {
    // No other party has a lower tag.
    party.tag = turns_.tag_ + cost;
    return true;
  }
  party.waiters.push_back({.member = this, .cost = cost});
  ++turns_.waiting_;
  return false;
}

void Turns::Serve() {
  for (std::uint64_t served = 0; served < kServedAtOnce && has_waiting();) {
    Party& party = Next()->second;
    const Waiter next = party.waiters.front();
    party.waiters.pop_front();
    --waiting_;
    tag_ = party.tag;
    party.tag += next.cost;
    served += next.cost;
    // A copy, since the member may end by its turn.
    const std::function<void()> on_turn = next.member->on_turn_;
    on_turn();
  }
}

Turns::Parties::iterator Turns::Next() {
  auto next = parties_.end();
  for (auto party = parties_.begin(); party != parties_.end(); ++party) {
    if (party->second.waiters.empty()) continue;
    if (next == parties_.end() || party->second.tag < next->second.tag) next = party;
  }
  return next;
}

}  // namespace warpfold::server
