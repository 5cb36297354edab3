// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces an array that arrives in pieces, by way of the backend's slots.
//
// Bytes are copied once, into a slot's staging buffer; while that slot's range is being reduced the next
// slot fills, so at most two are leased. Between Drain and the next Append none is: what remains then is
// the partial state and a tail of less than a leaf. An array that stays below the crossover never sees a
// slot. Where the reduction names an algorithm there is no crossover, and the tail takes a slot too: the
// device reduces every element.
//
// Threads: one at a time. Append, Drain and Finish block on slots and on the device, and return early
// when the call is stopped. After an error only the destructor may follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "server/byte_slices.h"
#include "server/call_control.h"
#include "server/engine.h"
#include "server/slot_pool.h"

namespace warpfold::server {

struct ReducerTimings {
  absl::Duration queue;   // waiting for a slot
  absl::Duration copy;    // to the device
  absl::Duration kernel;  // reducing
};

class ArrayReducer {
 public:
  // `first_element` is a multiple of the leaf size. `engine` and `call` must outlive the reducer.
  ArrayReducer(Engine& engine, const CallControl& call, const kernels::Reduction& reduction,
               std::uint64_t first_element);
  // Waits for what the device still works on.
  ~ArrayReducer();
  ArrayReducer(const ArrayReducer&) = delete;
  ArrayReducer& operator=(const ArrayReducer&) = delete;

  // Takes the next bytes of the array. UNAVAILABLE (DEVICE_LOST), or why the call was stopped.
  absl::Status Append(ByteSlice bytes);

  // Reduces all whole leaves that have come and gives all leases back. To be called when no more bytes
  // are at hand.
  absl::Status Drain();

  // The state of the whole range. The bytes appended must be a whole number of elements.
  absl::StatusOr<kernels::PartialState> Finish();

  const ReducerTimings& timings() const { return timings_; }

 private:
  // A slot that is being filled.
  struct Filling {
    SlotPool::Lease lease;
    std::span<std::byte> room;  // of its staging buffer, a whole number of leaves
    std::size_t bytes = 0;      // so far
  };

  absl::Status AppendToSlots(ByteSlice bytes);
  absl::StatusOr<SlotPool::Lease> NextLease();
  absl::Status StartFilling();
  absl::Status StartFilled();
  absl::Status ReduceTail();
  absl::Status CollectOldest();

  Engine& engine_;
  const CallControl& call_;
  const kernels::Reduction reduction_;
  kernels::PartialState state_;  // of what has been collected
  std::uint64_t next_element_;   // the first that no slot has been started on
  std::vector<std::byte> held_;  // bytes from next_element_ on, before those in filling_
  bool uses_slots_;              // the array has reached the crossover
  std::optional<Filling> filling_;
  std::deque<SlotPool::Lease> started_;  // oldest first
  ReducerTimings timings_;
};

}  // namespace warpfold::server
