// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces an array that arrives in pieces, by way of a shard's slots.
//
// Bytes are copied once, into a slot's staging buffer. A full slot is started and the next one fills, so that
// the device works while bytes arrive. Nothing blocks: Append takes what there is room for, and the listener
// hears when there is room again. Between two messages the reducer holds its partial state, less than a leaf
// of bytes, and a slot that others may call in (slot_share.h). An array that stays below the crossover never
// sees a slot. Where the reduction names an algorithm there is no crossover, and the last bytes take a slot,
// too: the device reduces every element.
//
// Threads: the shard's only. After an error only the destructor may follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "server/core/byte_slices.h"
#include "server/core/clock.h"
#include "server/core/slot_share.h"

namespace warpfold::server {

struct ReducerTimings {
  absl::Duration queue;   // waiting for a slot
  absl::Duration copy;    // to the device
  absl::Duration kernel;  // reducing
};

class ArrayReducer : private SlotShare::Holder {
 public:
  struct Options {
    kernels::Reduction reduction;
    std::uint64_t first_element = 0;    // a multiple of the leaf size
    std::uint64_t crossover_bytes = 0;  // arrays smaller than this are reduced on the calling thread
    std::uint64_t least_bytes = 0;      // the array has at least so many, as far as is known
  };

  // `share` and `clock` must outlive the reducer. `listener` is called from the share when an Append that
  // took less than it was given, or a TryFinish that was not done, should be tried again, or when status() is
  // an error.
  ArrayReducer(SlotShare& share, const Clock& clock, const Options& options, std::function<void()> listener);
  ~ArrayReducer() override { Release(); }
  ArrayReducer(const ArrayReducer&) = delete;
  ArrayReducer& operator=(const ArrayReducer&) = delete;

  // Takes the next bytes of the array and returns how many: fewer where no slot is free. UNAVAILABLE
  // (DEVICE_LOST).
  absl::StatusOr<std::size_t> Append(ByteSlice bytes);

  // No more bytes are at hand: the slot that is being filled may be called in.
  absl::Status Pause();

  // All bytes have been appended, a whole number of elements. True once state() is that of the whole range.
  absl::StatusOr<bool> TryFinish();

  // Gives back what it holds; what the device still works on is not waited for. Nothing may follow but the
  // destructor, which does the same.
  void Release();

  // The error that the share reported, if any.
  const absl::Status& status() const { return status_; }
  const kernels::PartialState& state() const { return state_; }
  const ReducerTimings& timings() const { return timings_; }

 private:
  // A slot that is being filled.
  struct Filling {
    kernels::Slot* slot;
    std::span<std::byte> room;  // of its staging buffer, a whole number of leaves
    std::size_t bytes = 0;      // so far
  };
  // A slot that has been started, and its result once there is one.
  struct Started {
    kernels::Slot* slot;
    std::optional<kernels::SlotResult> result;
  };

  void OnSlotFree() override;
  void OnSlotWanted() override;
  void OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) override;

  absl::Status PlaceBacklog();
  absl::StatusOr<std::size_t> AppendToSlots(ByteSlice bytes);
  bool StartFilling();
  absl::Status StartFilled();
  absl::Status Start(kernels::Slot* slot, std::uint64_t elements);
  absl::Status AppendFinished();
  void ReduceTailHere();

  SlotShare& share_;
  const Clock& clock_;
  const kernels::Reduction reduction_;
  const std::uint64_t crossover_bytes_;
  const std::function<void()> listener_;
  absl::Status status_;          // of what was heard from the share
  kernels::PartialState state_;  // of what has been collected
  std::uint64_t next_element_;   // the first that no slot has been started on
  std::vector<std::byte> held_;  // bytes from next_element_ on, before those in filling_
  bool uses_slots_;              // the array has reached the crossover
  // What was held when it did, of which the first bytes are in slots by now.
  std::vector<std::byte> backlog_;
  std::size_t backlog_placed_ = 0;
  std::optional<Filling> filling_;
  std::deque<Started> started_;              // oldest first
  std::optional<absl::Time> waiting_since_;  // for a slot
  ReducerTimings timings_;
};

}  // namespace warpfold::server
