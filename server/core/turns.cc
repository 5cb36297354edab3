// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/turns.h"

#include <algorithm>
#include <iterator>
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
  --party_->second.members;
  turns_.ForgetIfGone(party_);
}

bool Turns::Member::Ask(std::uint64_t bytes) {
  if (!turns_.has_waiting() && !turns_.tags_.has_several()) return true;
  Party& party = party_->second;
  if (turns_.hold_.has_value() && turns_.hold_->party == party_) turns_.EndHold(turns_.clock_(), /*times=*/1);
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

void Turns::Member::Expect() {
  Party& party = party_->second;
  if (party.credit <= absl::ZeroDuration()) return;
  party.expected_until = turns_.clock_() + std::min(party.credit, kPatience);
}

Turns::~Turns() {
  for (const auto& [name, party] : parties_) tags_.Leave(name);
}

std::optional<absl::Time> Turns::held_until() const {
  if (!hold_.has_value()) return std::nullopt;
  return hold_->party->second.expected_until;
}

void Turns::Serve() {
  for (std::uint64_t served = 0; served < kServedAtOnce && has_waiting();) {
    Party* const overdue = Overdue();
    Party& party = overdue != nullptr ? *overdue : LowestWaiting();
    if (overdue == nullptr && IsHeld(party)) return;
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
  party.credit = std::min(party.credit + kHeldPerByte * static_cast<std::int64_t>(cost), kMostCredit);
}

// Whether a message is expected, for which `next` is held.
bool Turns::IsHeld(const Party& next) {
  const absl::Time now = clock_();
  if (hold_.has_value()) {
    if (now < hold_->party->second.expected_until) return true;
    EndHold(now, kInVain);
  }
  const Parties::iterator expected = Expected(next, now);
  if (expected != parties_.end()) hold_ = {.party = expected, .since = now};
  return hold_.has_value();
}

// A party that is far behind the other one and whose message is expected; the end if there is none.
Turns::Parties::iterator Turns::Expected(const Party& instead_of, absl::Time now) {
  const std::uint64_t start = tags_.Start(*instead_of.tag);
  return std::find_if(parties_.begin(), parties_.end(), [&](const auto& party) {
    return party.second.expected_until > now && tags_.Start(*party.second.tag) + kFarBehind <= start;
  });
}

// The time for which others were held counts so many times.
void Turns::EndHold(absl::Time now, int times) {
  Party& party = hold_->party->second;
  party.credit -= times * (std::min(now, party.expected_until) - hold_->since);
  party.expected_until = absl::InfinitePast();
  hold_.reset();
}

void Turns::OnTick() {
  const absl::Time now = clock_();
  for (auto party = parties_.begin(); party != parties_.end();) {
    const auto next = std::next(party);
    if (party->second.expected_until <= now) {
      if (hold_.has_value() && hold_->party == party) EndHold(now, kInVain);
      party->second.expected_until = absl::InfinitePast();
      ForgetIfGone(party);
    }
    party = next;
  }
}

void Turns::ForgetIfGone(Parties::iterator party) {
  if (party->second.members > 0 || party->second.expected_until != absl::InfinitePast()) return;
  tags_.Leave(party->first);
  parties_.erase(party);
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
