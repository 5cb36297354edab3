// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/slot_pool.h"

#include <algorithm>

namespace warpfold::server {

SlotPool::SlotPool(std::span<const std::unique_ptr<kernels::Slot>> slots) : size_(slots.size()) {
  free_.reserve(slots.size());
  for (const auto& slot : slots) free_.push_back(slot.get());
}

absl::StatusOr<SlotPool::Lease> SlotPool::Acquire(const CallControl& call) {
  Waiter waiter;
  {
    std::unique_lock lock(mutex_);
    if (call.stopped()) return call.status();
    if (waiters_.empty() && !free_.empty()) {
      waiter.slot = free_.back();
      free_.pop_back();
      return Lease(this, waiter.slot);
    }
    waiters_.push_back(&waiter);
    changed_.wait(lock, [&] { return waiter.slot != nullptr || call.stopped(); });
    if (waiter.slot == nullptr) waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
  }
  if (waiter.slot != nullptr) return Lease(this, waiter.slot);
  return call.status();
}

std::optional<SlotPool::Lease> SlotPool::TryAcquire() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::nullopt;
  kernels::Slot* slot = free_.back();
  free_.pop_back();
  return Lease(this, slot);
}

void SlotPool::Wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

std::size_t SlotPool::free() const {
  const std::lock_guard lock(mutex_);
  return free_.size();
}

std::size_t SlotPool::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiters_.size();
}

void SlotPool::Return(kernels::Slot* slot) {
  const std::lock_guard lock(mutex_);
  if (waiters_.empty()) {
    free_.push_back(slot);
    return;
  }
  waiters_.front()->slot = slot;
  waiters_.pop_front();
  changed_.notify_all();
}

}  // namespace warpfold::server
