// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/slot_pool.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"

namespace warpfold::server {

SlotPool::SlotPool(const std::vector<kernels::Slot*>& slots, DeviceHealth* device) : device_(device) {
  for (kernels::Slot* slot : slots) {
    entries_.push_back({.slot = slot});
    devices_ = std::max(devices_, slot->device() + 1);
  }
}

kernels::Slot* SlotPool::Take(Holder& holder, std::optional<int> device) {
  const bool has_turn = served_ == &holder;
  if (has_turn) served_ = nullptr;
  const bool waits = Waits(holder);
  Entry* entry = FindFree(device, has_turn);
  if (entry == nullptr && !waits) {
    RevokeLoan(device);
    entry = FindFree(device, has_turn);
  }
  if (entry == nullptr) {
    if (!waits) Queue(holder, device);
    return nullptr;
  }
  entry->state = State::kTaken;
  entry->awaiting_client = false;
  entry->holder = &holder;
  entry->party = holder.party();
  Party& party = parties_[holder.party()];
  ++party.slots;
  party.served = ++given_out_;
  entry->slot->WorkFor(absl::HashOf(holder.party()));
  return entry->slot;
}

void SlotPool::GiveWay(Holder& holder, std::optional<int> device) {
  if (served_ == &holder) served_ = nullptr;
  if (!Waits(holder)) Queue(holder, device);
}

const kernels::Slot& SlotPool::SlotOf(std::optional<int> device) const {
  return *std::ranges::find_if(entries_, [device](const Entry& entry) { return Suits(entry, device); })->slot;
}

void SlotPool::Return(kernels::Slot* slot) {
  Entry& entry = EntryOf(slot);
  const auto party = parties_.find(entry.party);
  --party->second.slots;
  ForgetIfGone(party);
  entry = {.slot = slot};
}

void SlotPool::SetAwaitingClient(kernels::Slot* slot, bool awaiting) {
  EntryOf(slot).awaiting_client = awaiting;
}

absl::Status SlotPool::Started(Holder& holder, kernels::Slot* slot, absl::Status started,
                               const DeviceWork& work) {
  if (!started.ok()) {
    Return(slot);
    return started;
  }
  Entry& entry = EntryOf(slot);
  entry = {.slot = slot,
           .state = State::kInFlight,
           .holder = &holder,
           .party = std::move(entry.party),
           .work = work};
  if (slot->EndsInStart()) has_worked_ = true;
  if (device_ != nullptr) {
    entry.deadline = DeviceDeadline(device_->Begin(work.bytes), slot->MostTimePerByte());
  }
  return started;
}

void SlotPool::AwaitFinish(const Holder& holder) {
  for (Entry& entry : entries_) {
    if (entry.holder == &holder) entry.awaited = true;
  }
}

std::optional<absl::Duration> SlotPool::PollTime() const {
  std::optional<absl::Duration> longest;
  for (const Entry& entry : entries_) {
    if (WantsNotice(entry)) longest = std::max(longest, std::optional(entry.work.poll));
  }
  return longest;
}

void SlotPool::AskForNotices() {
  for (Entry& entry : entries_) {
    if (WantsNotice(entry)) {
      entry.noticed = true;
      const DeviceCalls::Scope call(device_calls_);
      entry.slot->Notify();
    }
  }
}

std::optional<absl::StatusOr<kernels::SlotResult>> SlotPool::CollectAtOnce(kernels::Slot* slot) {
  return slot->EndsInStart() ? Collect(slot) : std::nullopt;
}

std::optional<absl::StatusOr<kernels::SegmentsResult>> SlotPool::CollectSegmentsAtOnce(kernels::Slot* slot) {
  return slot->EndsInStart() ? CollectSegments(slot) : std::nullopt;
}

std::optional<absl::StatusOr<kernels::SlotResult>> SlotPool::Collect(kernels::Slot* slot) {
  const DeviceCalls::Scope call(device_calls_);
  if (!slot->Finished()) return std::nullopt;
  absl::StatusOr<kernels::SlotResult> result = slot->Wait();
  if (device_ != nullptr) device_->End(EntryOf(slot).work.bytes);
  Return(slot);
  return result;
}

std::optional<absl::StatusOr<kernels::SegmentsResult>> SlotPool::CollectSegments(kernels::Slot* slot) {
  const DeviceCalls::Scope call(device_calls_);
  if (!slot->Finished()) return std::nullopt;
  absl::StatusOr<kernels::SegmentsResult> result = slot->WaitSegments();
  if (device_ != nullptr) device_->End(EntryOf(slot).work.bytes);
  Return(slot);
  return result;
}

void SlotPool::Leave(Holder& holder) {
  if (const auto party = parties_.find(holder.party()); party != parties_.end()) {
    waiting_ -= std::erase_if(party->second.waiters,
                              [&holder](const Waiter& waiter) { return waiter.holder == &holder; });
    ForgetIfGone(party);
  }
  for (Entry& entry : entries_) {
    if (entry.holder == &holder) entry.holder = nullptr;
  }
}

void SlotPool::Poll() {
  for (Entry& entry : entries_) {
    if (entry.state != State::kInFlight) continue;
    Holder* const holder = entry.holder;
    if (entry.work.segments) {
      const auto segments = CollectSegments(entry.slot);
      if (segments.has_value() && holder != nullptr) holder->OnSegmentsFinished(entry.slot, *segments);
      continue;
    }
    std::optional<absl::StatusOr<kernels::SlotResult>> result = Collect(entry.slot);
    if (result.has_value() && holder != nullptr) holder->OnSlotFinished(entry.slot, *std::move(result));
  }
  Serve();
}

void SlotPool::CheckDeadlines(absl::Time now) {
  if (device_ == nullptr) return;
  for (Entry& entry : entries_) {
    if (entry.state != State::kInFlight || entry.lasts.Advance(now) < entry.deadline) continue;
    device_->Lose(absl::StrCat("the device did not end within ", absl::ToInt64Seconds(entry.deadline),
                               " s what it was given"));
  }
}

void SlotPool::Serve() {
  has_worked_ = false;
  while (!has_worked_) {
    const std::optional<Turn> turn = FindTurn();
    if (!turn.has_value()) return;
    Holder* const holder = turn->waiter->holder;
    const auto party = parties_.find(turn->party->first);
    party->second.waiters.erase(turn->waiter);
    --waiting_;
    // The party counts as served even if it takes no slot: otherwise it would remain the next one forever.
    party->second.served = ++given_out_;
    ForgetIfGone(party);
    served_ = holder;
    holder->OnSlotFree();
    served_ = nullptr;
  }
}

std::optional<SlotPool::Turn> SlotPool::FindTurn() const {
  if (waiting_ == 0 || free() == 0) return std::nullopt;
  const auto has_slot = [this](const Waiter& waiter) { return HasFree(waiter.device); };
  std::optional<Turn> next;
  for (auto party = parties_.begin(); party != parties_.end(); ++party) {
    const Waiters& waiters = party->second.waiters;
    const auto rank = [](const Party& p) { return std::pair(p.slots, p.served); };
    if (next.has_value() && rank(next->party->second) < rank(party->second)) continue;
    const auto waiter = std::find_if(waiters.begin(), waiters.end(), has_slot);
    if (waiter != waiters.end()) next = {.party = party, .waiter = waiter};
  }
  return next;
}

void SlotPool::Queue(Holder& holder, std::optional<int> device) {
  const auto [party, is_new] = parties_.try_emplace(holder.party());
  // It may have been forgotten since it was served, so it is placed after those who are already waiting.
  if (is_new) party->second.served = ++given_out_;
  party->second.waiters.push_back({.holder = &holder, .device = device});
  ++waiting_;
}

bool SlotPool::Waits(const Holder& holder) const {
  const auto party = parties_.find(holder.party());
  if (party == parties_.end()) return false;
  const Waiters& waiters = party->second.waiters;
  return std::any_of(waiters.begin(), waiters.end(),
                     [&holder](const Waiter& waiter) { return waiter.holder == &holder; });
}

void SlotPool::ForgetIfGone(Parties::iterator party) {
  if (party->second.slots == 0 && party->second.waiters.empty()) parties_.erase(party);
}

std::size_t SlotPool::free() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const Entry& entry) { return entry.state == State::kFree; });
}

std::size_t SlotPool::in_flight() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const Entry& entry) { return entry.state == State::kInFlight; });
}

SlotPool::Entry& SlotPool::EntryOf(const kernels::Slot* slot) {
  return *std::find_if(entries_.begin(), entries_.end(),
                       [slot](const Entry& entry) { return entry.slot == slot; });
}

bool SlotPool::HasFree(std::optional<int> device) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.state == State::kFree && Suits(e, device); });
}

SlotPool::Entry* SlotPool::FindFree(std::optional<int> device, bool has_turn) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.state == State::kFree && Suits(e, device) && (has_turn || !IsWaitedFor(e));
  });
  return entry == entries_.end() ? nullptr : &*entry;
}

bool SlotPool::IsWaitedFor(const Entry& entry) const {
  if (waiting_ == 0) return false;
  return std::any_of(parties_.begin(), parties_.end(), [&entry](const auto& party) {
    const Waiters& waiters = party.second.waiters;
    return std::any_of(waiters.begin(), waiters.end(),
                       [&entry](const Waiter& waiter) { return Suits(entry, waiter.device); });
  });
}

void SlotPool::RevokeLoan(std::optional<int> device) {
  const auto lent = std::find_if(entries_.begin(), entries_.end(), [device](const Entry& entry) {
    return entry.state == State::kTaken && entry.awaiting_client && Suits(entry, device);
  });
  if (lent == entries_.end()) return;
  lent->awaiting_client = false;
  lent->holder->OnSlotWanted();
}

}  // namespace warpfold::server
