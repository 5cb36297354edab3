// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/admission/turns.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace warpfold::server {

Turns::Member::Member(Turns& turns, const std::string& party, std::function<void()> on_turn)
    : turns_(turns), party_(turns.parties_.try_emplace(party).first), on_turn_(std::move(on_turn)) {
  Party& own = party_->second;
  ++own.members;
  // All calls of a party that is expected may have ended, although it has not left.
  if (own.tag == nullptr) own.tag = &turns_.tags_.Join(party);
}

Turns::Member::~Member() {
  SetWaitsForSlot(false);
  for (std::deque<Waiter>* const waiters : {&party_->second.light, &party_->second.bulk}) {
    // What was passed over was the party's first message, so the count is reset with it.
    if (!waiters->empty() && waiters->front().member == this) party_->second.passed_over = 0;
    turns_.waiting_ -=
        std::erase_if(*waiters, [this](const Waiter& waiter) { return waiter.member == this; });
  }
  if (!turns_.has_waiting() && turns_.hold_.has_value()) turns_.EndHold(/*factor=*/1);
  --party_->second.members;
  // A party does not lose its debt by leaving: that takes until the next tick.
  if (party_->second.credit >= absl::ZeroDuration()) turns_.ForgetIfGone(party_);
}

bool Turns::Member::Ask(const Arrival& arrival) {
  kind_ = arrival.kind;
  ExpectNothing();
  turns_.have_several_ = turns_.tags_.has_several();
  if (!turns_.has_waiting() && !turns_.have_several_) return true;
  Party& party = party_->second;
  const Waiter message{.member = this, .cost = arrival.costs_bytes + kMessageCost, .bytes = arrival.bytes};
  if (turns_.MayTakeNow(party, arrival.kind)) {
    turns_.Take(party, message, arrival.kind);
    return true;
  }
  if (!party.has_waiting()) party.passed_over = 0;
  party.Of(arrival.kind).push_back(message);
  ++turns_.waiting_;
  turns_.LetGo(party);
  return false;
}

void Turns::Member::Charge(std::uint64_t bytes) {
  if (!turns_.have_several_) return;
  Party& party = party_->second;
  turns_.Count(party, bytes);
  party.passed_over = 0;  // it is being served
}

void Turns::Member::SetWaitsForSlot(bool waits) {
  const bool counts = waits && kind_ == Kind::kBulk;
  party_->second.waiting_for_slots += static_cast<int>(counts) - static_cast<int>(waits_for_slot_);
  waits_for_slot_ = counts;
}

void Turns::Member::Expect() {
  Party& party = party_->second;
  // A party for which others are already held gains no time from a call that begins or ends.
  if (party.credit < kMinPatience || turns_.IsHoldOf(party_)) return;
  party.expected_until = turns_.clock_() + std::min(party.credit, kPatience);
}

void Turns::Member::ExpectNothing() {
  if (turns_.IsHoldOf(party_)) turns_.EndHold(/*factor=*/1);
  party_->second.expected_until = absl::InfinitePast();
}

Turns::~Turns() {
  for (const auto& [name, party] : parties_) tags_.Leave(name);
}

std::optional<absl::Time> Turns::held_until() const {
  if (!hold_.has_value()) return std::nullopt;
  return hold_->party->second.expected_until;
}

void Turns::Serve() {
  for (std::uint64_t served = 0; served < kServedAtOnce;) {
    if (hold_.has_value() && clock_() >= hold_->party->second.expected_until) EndHold(kInVainFactor);
    if (!has_ready()) {
      if (hold_.has_value()) EndHold(/*factor=*/1);
      return;
    }
    Party* const overdue = Overdue();
    Party& party = overdue != nullptr ? *overdue : LowestReady();
    if (overdue == nullptr && HoldsBack(party)) return;
    // The party for which others are held is not charged for the time that an overdue message takes.
    if (hold_.has_value()) EndHold(/*factor=*/1);
    const Kind kind = *NextOf(party);
    const Waiter next = party.Of(kind).front();
    party.Of(kind).pop_front();
    --waiting_;
    Take(party, next, kind);
    served += next.cost;
    // A copy, since the member may be destroyed in its turn.
    const std::function<void()> on_turn = next.member->on_turn_;
    on_turn();
  }
}

// Counts a message of the party that is taken now.
void Turns::Take(Party& party, const Waiter& message, Kind kind) {
  Count(party, message.cost);
  party.passed_over = 0;
  if (party.bulk.empty()) {
    party.light_cost = 0;
  } else if (kind == Kind::kBulk) {
    party.light_cost -= std::min(party.light_cost, message.cost);
  } else if (MayTakeBulk(party)) {
    party.light_cost += message.cost;
  }
  party.credit = std::min(party.credit + kHeldPerByte * static_cast<std::int64_t>(message.bytes), kMaxCredit);
}

void Turns::Count(Party& party, std::uint64_t cost) {
  tags_.Charge(*party.tag, cost);
  for (auto& [name, other] : parties_) other.passed_over += cost;
}

// Whether a message is expected, for which `next` has to wait; if so, others are held from now on.
bool Turns::HoldsBack(const Party& next) {
  if (hold_.has_value()) {
    const Party& expected = hold_->party->second;
    if (MayTakeBulk(expected) && IsFarBehind(expected, next)) return true;
    EndHold(/*factor=*/1);
  }
  const absl::Time now = clock_();
  const Parties::iterator expected = Expected(next, now);
  if (expected != parties_.end()) hold_ = {.party = expected, .since = now};
  return hold_.has_value();
}

bool Turns::IsFarBehind(const Party& party, const Party& next) const {
  return tags_.Start(*party.tag) + kFarBehind <= tags_.Start(*next.tag);
}

// Of the parties whose message is expected and that are far behind the other one, the one that has had least;
// the end if there is none.
Turns::Parties::iterator Turns::Expected(const Party& instead_of, absl::Time now) {
  auto lowest = parties_.end();
  for (auto party = parties_.begin(); party != parties_.end(); ++party) {
    // A party that waits for a slot could not take what comes.
    if (party->second.expected_until <= now || !MayTakeBulk(party->second)) continue;
    if (!IsFarBehind(party->second, instead_of)) continue;
    if (lowest == parties_.end() || tags_.Start(*party->second.tag) < tags_.Start(*lowest->second.tag)) {
      lowest = party;
    }
  }
  return lowest;
}

// A message of the party waits now. Nobody is held for a party that has had about as much.
void Turns::LetGo(const Party& party) {
  if (hold_.has_value() && !IsFarBehind(hold_->party->second, party)) EndHold(/*factor=*/1);
}

// The time for which others were held costs this many times its credit. gRPC's queue may wait a little longer
// than it was told; a longer wait is not the party's fault, for example if the machine was suspended.
void Turns::EndHold(int factor) {
  Party& party = hold_->party->second;
  const absl::Duration held = std::min(clock_(), party.expected_until + kMinPatience) - hold_->since;
  hold_.reset();
  party.credit -= factor * held;
  Count(party, static_cast<std::uint64_t>(held / kHeldPerByte));
}

void Turns::OnTick() {
  const absl::Time now = clock_();
  for (auto party = parties_.begin(); party != parties_.end();) {
    const auto next = std::next(party);
    // Serve ends a hold: somebody waits.
    if (party->second.expected_until <= now && !IsHoldOf(party)) {
      party->second.expected_until = absl::InfinitePast();
      ForgetIfGone(party);
    }
    party = next;
  }
  have_several_ = tags_.has_several();
}

void Turns::ForgetIfGone(Parties::iterator party) {
  if (party->second.members > 0 || party->second.expected_until != absl::InfinitePast()) return;
  tags_.Leave(party->first);
  parties_.erase(party);
}

// Whether no other party of this shard has had less, whether its messages wait or are yet to come.
bool Turns::IsNext(const Party& party) const {
  const std::uint64_t start = tags_.Start(*party.tag);
  return std::none_of(parties_.begin(), parties_.end(),
                      [this, start](const auto& other) { return tags_.Start(*other.second.tag) < start; });
}

bool Turns::has_ready() const {
  return has_waiting() && std::any_of(parties_.begin(), parties_.end(),
                                      [this](const auto& party) { return NextOf(party.second).has_value(); });
}

std::optional<Turns::Kind> Turns::NextOf(const Party& party) const {
  const bool has_bulk = !party.bulk.empty() && MayTakeBulk(party);
  if (!has_bulk) return party.light.empty() ? std::nullopt : std::optional(Kind::kLight);
  return party.light.empty() || party.light_cost >= party.bulk.front().cost ? Kind::kBulk : Kind::kLight;
}

// Whether a message that has come need not wait for its turn.
bool Turns::MayTakeNow(const Party& party, Kind kind) {
  const bool is_first = kind == Kind::kLight ? party.light.empty() && NextOf(party) != Kind::kBulk
                                             : !party.has_waiting() && MayTakeBulk(party);
  return is_first && IsNext(party) && (!has_waiting() || Overdue() == nullptr);
}

// A party that was passed over for so long that its message is next, however much others are behind; null if
// there is none.
Turns::Party* Turns::Overdue() {
  const auto is_ready = [this](const auto& party) { return NextOf(party.second).has_value(); };
  const std::int64_t others = std::count_if(parties_.begin(), parties_.end(), is_ready) - 1;
  const std::uint64_t most = kMaxPassedOver * static_cast<std::uint64_t>(std::max<std::int64_t>(others, 1));
  Party* overdue = nullptr;
  for (auto& [name, party] : parties_) {
    const std::optional<Kind> next = NextOf(party);
    if (!next.has_value() || party.passed_over < most * party.Of(*next).front().cost) continue;
    if (overdue == nullptr || party.passed_over > overdue->passed_over) overdue = &party;
  }
  return overdue;
}

// Of the parties with a message that is ready, of which there is at least one, the one that has had least.
Turns::Party& Turns::LowestReady() {
  Party* lowest = nullptr;
  for (auto& [name, party] : parties_) {
    if (!NextOf(party).has_value()) continue;
    if (lowest == nullptr || tags_.Start(*party.tag) < tags_.Start(*lowest->tag)) lowest = &party;
  }
  return *lowest;
}

}  // namespace warpfold::server
