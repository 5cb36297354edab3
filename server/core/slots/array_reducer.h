// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces an array that arrives in pieces, using a shard's slots.
//
// Bytes are copied once, into a slot's staging buffer, or not at all if the device reads them in the messages
// (slot_fill.h). A full slot is started and the next one fills, so that the device works while bytes arrive.
// Nothing blocks: Append takes what there is room for, and the listener is called when there is room again.
// Between two messages the reducer holds its partial state, less than a leaf of bytes, and a slot that others
// may revoke (slot_pool.h). If the array's size is known, slots get smaller towards its end, so that little
// is left to do for the device when the last bytes come. An array that stays below the crossover, or has no
// more than a leaf, never uses a slot, and if it comes in one piece it is reduced where it lies. If the
// reduction names an algorithm, there is no crossover, and the last bytes take a slot, too: the device
// reduces every element.
//
// Threads: only the shard's. After an error only Release and the destructor may follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/reduction.h"
#include "server/core/slots/array_sink.h"
#include "server/core/slots/slot_fill.h"
#include "server/core/slots/slot_reducer.h"
#include "server/core/wire/byte_slices.h"

namespace warpfold::server {

class ArrayReducer : public SlotReducer, public ArraySink {
 public:
  struct Options {
    kernels::ReductionPlan reduction;
    std::uint64_t first_element = 0;    // a multiple of the leaf size
    std::uint64_t crossover_bytes = 0;  // arrays smaller than this are reduced on the calling thread
    std::uint64_t least_bytes = 0;      // the array has at least this many, as far as is known
  };

  // The pool and `clock` must outlive the reducer. `listener` is called from the pool when an Append that
  // took less than it was given, or a TryFinish that was not done, should be tried again, or when status() is
  // an error.
  ArrayReducer(const PartySlots& slots, const Clock& clock, const Options& options,
               std::function<void()> listener);
  ~ArrayReducer() override { Release(); }

  // UNAVAILABLE (DEVICE_LOST).
  absl::StatusOr<std::size_t> Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) override;
  bool waits_for_slot() const override { return SlotReducer::waits_for_slot(); }
  // From now on the slot that is being filled may be revoked.
  absl::Status Pause() override;

  // To be called when all bytes, a whole number of elements, have been appended.
  absl::StatusOr<bool> TryFinish() override;

  void Release() override;

 private:
  absl::Status StartLent() override { return StartFilled(); }

  void Hold(ByteSlice bytes, const std::shared_ptr<const void>& owner);
  void HoldLent();
  absl::Status PlaceBacklog();
  absl::StatusOr<std::size_t> AppendToSlots(ByteSlice bytes, const std::shared_ptr<const void>& owner);
  bool StartFilling();
  std::size_t BytesToFill(const kernels::Slot& slot) const;
  absl::Status StartFilled();
  absl::Status Start(SlotFill fill);

  const std::uint64_t crossover_bytes_;
  const std::uint64_t end_element_;  // as far as is known

  // Bytes that have come and are not in a slot that was started. Below the crossover they are in lent_ or in
  // held_. Once it is reached, these are the backlog; in the array the order is then held_ (less than a leaf,
  // from next_element() on), fill_, the rest of the backlog, and what comes.
  bool uses_slots_;  // the array has reached the crossover
  std::vector<std::byte> held_;
  // The first bytes of the array, while nothing else has come. They stay in their message, which is held only
  // until the client is waited for.
  ByteSlice lent_;
  std::shared_ptr<const void> lender_;
  std::vector<std::byte> backlog_;
  std::size_t backlog_placed_ = 0;  // these of its bytes are in slots by now
  std::optional<SlotFill> fill_;
};

}  // namespace warpfold::server
