// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slot_share.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpfold::server {

SlotShare::SlotShare(const std::vector<kernels::Slot*>& slots, DeviceHealth* device) : device_(device) {
  for (kernels::Slot* slot : slots) entries_.push_back({.slot = slot});
}

kernels::Slot* SlotShare::Take(Holder& holder) {
  const bool is_its_turn = waiters_.empty() || served_ == &holder;
  if (served_ == &holder) served_ = nullptr;
  const bool waits = std::find(waiters_.begin(), waiters_.end(), &holder) != waiters_.end();
  Entry* entry = is_its_turn ? FindFree() : nullptr;
  if (entry == nullptr && !waits) {
    CallInALoan();
    if (is_its_turn) entry = FindFree();
  }
  if (entry == nullptr) {
    if (!waits) waiters_.push_back(&holder);
    return nullptr;
  }
  entry->state = State::kTaken;
  entry->awaiting_client = false;
  entry->holder = &holder;
  return entry->slot;
}

void SlotShare::Return(kernels::Slot* slot) { EntryOf(slot) = {.slot = slot}; }

void SlotShare::SetAwaitingClient(kernels::Slot* slot, bool awaiting) {
  EntryOf(slot).awaiting_client = awaiting;
}

absl::Status SlotShare::Started(Holder& holder, kernels::Slot* slot, absl::Status started,
                                const InUse& in_use) {
  if (!started.ok()) {
    Return(slot);
    return started;
  }
  Entry& entry = EntryOf(slot);
  entry = {.slot = slot, .state = State::kInFlight, .holder = &holder, .in_use = in_use};
  if (device_ != nullptr) entry.deadline = DeviceDeadline(device_->Begin(in_use.bytes));
  return started;
}

void SlotShare::AwaitFinish(const Holder& holder) {
  for (Entry& entry : entries_) {
    if (entry.holder == &holder) entry.awaited = true;
  }
}

bool SlotShare::AwaitsSoon() const {
  return std::any_of(entries_.begin(), entries_.end(), [this](const Entry& entry) {
    return entry.in_use.ends_soon && !entry.noticed && IsAwaited(entry);
  });
}

void SlotShare::AskForNotices() {
  for (Entry& entry : entries_) {
    if (!entry.noticed && IsAwaited(entry)) {
      entry.noticed = true;
      const DeviceCalls::Scope call(device_calls_);
      entry.slot->Notify();
    }
  }
}

std::optional<absl::StatusOr<kernels::SlotResult>> SlotShare::Collect(kernels::Slot* slot) {
  const DeviceCalls::Scope call(device_calls_);
  if (!slot->Finished()) return std::nullopt;
  absl::StatusOr<kernels::SlotResult> result = slot->Wait();
  if (device_ != nullptr) device_->End(EntryOf(slot).in_use.bytes);
  Return(slot);
  return result;
}

void SlotShare::Leave(Holder& holder) {
  waiters_.erase(std::remove(waiters_.begin(), waiters_.end(), &holder), waiters_.end());
  for (Entry& entry : entries_) {
    if (entry.holder == &holder) entry.holder = nullptr;
  }
}

void SlotShare::Poll() {
  for (Entry& entry : entries_) {
    if (entry.state != State::kInFlight) continue;
    Holder* const holder = entry.holder;
    std::optional<absl::StatusOr<kernels::SlotResult>> result = Collect(entry.slot);
    if (result.has_value() && holder != nullptr) holder->OnSlotFinished(entry.slot, *std::move(result));
  }
  Serve();
}

void SlotShare::LookAtDevice(absl::Time now) {
  if (device_ == nullptr) return;
  for (Entry& entry : entries_) {
    if (entry.state != State::kInFlight || entry.lasts.Look(now) < entry.deadline) continue;
    device_->Lose(absl::StrCat("the device did not end within ", absl::ToInt64Seconds(entry.deadline),
                               " s what it was given"));
  }
}

void SlotShare::Serve() {
  while (!waiters_.empty() && FindFree() != nullptr) {
    Holder* const holder = waiters_.front();
    waiters_.pop_front();
    served_ = holder;
    holder->OnSlotFree();
    served_ = nullptr;
  }
}

std::size_t SlotShare::free() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const Entry& entry) { return entry.state == State::kFree; });
}

std::size_t SlotShare::in_flight() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const Entry& entry) { return entry.state == State::kInFlight; });
}

SlotShare::Entry& SlotShare::EntryOf(const kernels::Slot* slot) {
  return *std::find_if(entries_.begin(), entries_.end(),
                       [slot](const Entry& entry) { return entry.slot == slot; });
}

SlotShare::Entry* SlotShare::FindFree() {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.state == State::kFree; });
  return entry == entries_.end() ? nullptr : &*entry;
}

void SlotShare::CallInALoan() {
  const auto lent = std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.state == State::kTaken && entry.awaiting_client;
  });
  if (lent == entries_.end()) return;
  lent->awaiting_client = false;
  lent->holder->OnSlotWanted();
}

}  // namespace warpfold::server
