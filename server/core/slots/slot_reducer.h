// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// All reducers that use a shard's slots have this in common: they start slots on adjacent ranges of an array,
// and collect the results in the order of their starts, in whatever order the device finishes.
//
// Threads: only the shard's. After an error only Release and the destructor may follow.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "server/core/clock.h"
#include "server/core/slots/slot_pool.h"

namespace warpfold::server {

struct ReducerTimings {
  std::optional<absl::Duration> queue;  // waiting for a slot; none if none was needed
  absl::Duration copy;                  // to the device
  absl::Duration kernel;                // reducing
};

// Takes slots for a holder, and measures the time from the first Take that gets none to the next that gets
// one.
class TimedTaker {
 public:
  kernels::Slot* Take(SlotPool& pool, SlotPool::Holder& holder, std::optional<int> device,
                      const Clock& clock);
  // How long it has waited for slots so far; none if it has never asked for one.
  std::optional<absl::Duration> Waited(const Clock& clock) const;

 private:
  std::optional<absl::Duration> waited_;  // for the slots that it has got
  std::optional<absl::Time> waiting_since_;
};

class SlotReducer : private SlotPool::Holder {
 public:
  ~SlotReducer() override = default;
  SlotReducer(const SlotReducer&) = delete;
  SlotReducer& operator=(const SlotReducer&) = delete;

  // Does what can be done without more bytes. True once state() is that of the whole range; otherwise the
  // listener is called when there is more to do.
  virtual absl::StatusOr<bool> TryFinish() = 0;

  // Gives back what it holds, without waiting for work that the device is still doing. Only the destructor
  // may follow, which does the same.
  virtual void Release();

  // The error that the pool reported, if any.
  const absl::Status& status() const { return status_; }
  const kernels::PartialState& state() const { return state_; }
  ReducerTimings timings() const;

 protected:
  // The pool and `clock` must outlive the reducer. `listener` is called from the pool when operations that
  // lacked a slot should be tried again, or when status() is an error.
  SlotReducer(const PartySlots& slots, const Clock& clock, const kernels::ReductionPlan& reduction,
              std::uint64_t first_element, std::function<void()> listener);

  // A slot to use, of `device` if one is named, or null: then the listener is called when there is one.
  kernels::Slot* TakeSlot(std::optional<int> device = std::nullopt);
  // The slot has been started, or could not be, on the next `elements` elements.
  absl::Status Started(kernels::Slot* slot, std::uint64_t elements, absl::Status status,
                       DeviceWork work = {});
  bool waits_for_slot() const { return pool_.Waits(*this); }
  // Reduces the next elements on this thread. Everything that was started before must have been collected.
  void ReduceHere(std::span<const std::byte> data);

  const kernels::ReductionPlan& reduction() const { return state_.reduction(); }
  // The first element that no slot has been started on.
  std::uint64_t next_element() const { return next_element_; }
  // Whether everything that was started is in state(); otherwise the pool is told that this waits for it.
  bool AllCollected();

  SlotPool& pool_;
  absl::Status status_;  // as heard from the pool

 private:
  // A slot that has been started, and its result once there is one.
  struct InFlight {
    kernels::Slot* slot;
    std::optional<kernels::SlotResult> result;
  };

  void OnSlotFree() override { listener_(); }
  void OnSlotWanted() override;
  void OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) override;
  // Another call needs the slot that is held while a slow client sends its next bytes: start what it has.
  virtual absl::Status StartLent() { return absl::OkStatus(); }

  absl::Status CollectFinished();

  const Clock& clock_;
  const std::function<void()> listener_;
  kernels::PartialState state_;  // of what has been collected
  std::uint64_t next_element_;
  std::deque<InFlight> started_;  // oldest first
  TimedTaker taker_;
  ReducerTimings timings_;
};

}  // namespace warpfold::server
