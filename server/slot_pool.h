// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Leases of a backend's slots. First come, first served: a slot that is given back goes to the call
// that has waited longest, so a call that leases again and again cannot starve another.
//
// A lease is for moving bytes that are already here. A call that holds one must not block in Acquire for
// a second: with all slots held that way, none would ever come back. It may TryAcquire.
//
// Threads: all methods from any thread; a lease belongs to one thread at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/call_control.h"

namespace warpfold::server {

class SlotPool {
 public:
  // The holder's own slot until destruction. No Start without its Wait may be open then.
  class Lease {
   public:
    Lease(Lease&& other) noexcept : pool_(other.pool_), slot_(std::exchange(other.slot_, nullptr)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Lease() {
      if (slot_ != nullptr) pool_->Return(slot_);
    }
    kernels::Slot* operator->() const { return slot_; }

   private:
    friend class SlotPool;
    Lease(SlotPool* pool, kernels::Slot* slot) : pool_(pool), slot_(slot) {}
    SlotPool* pool_;
    kernels::Slot* slot_;
  };

  // The slots must outlive the pool, and the pool its leases.
  explicit SlotPool(std::span<const std::unique_ptr<kernels::Slot>> slots);

  // Blocks until a slot is free and no call waits longer for it. Fails with call.status() once the call
  // has been stopped (see Wake), at its deadline too: whoever watches over calls stops it then.
  absl::StatusOr<Lease> Acquire(const CallControl& call);

  // A slot if one is free and no call waits.
  std::optional<Lease> TryAcquire();

  // Makes waiting calls look whether they have been stopped. To be called after CallControl::Stop.
  void Wake();

  std::size_t size() const { return size_; }
  // How many are not leased.
  std::size_t free() const;
  // How many calls are blocked in Acquire.
  std::size_t waiting() const;

 private:
  struct Waiter {
    kernels::Slot* slot = nullptr;  // set by Return
  };
  void Return(kernels::Slot* slot);

  const std::size_t size_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<kernels::Slot*> free_;  // guarded by mutex_; empty while waiters_ is not
  std::deque<Waiter*> waiters_;       // guarded by mutex_; longest waiting first
};

}  // namespace warpfold::server
