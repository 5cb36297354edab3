// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces an array that lies in a NamedMemory: nothing is copied to a slot's staging buffer; slots are the
// device's queues, and take turns with those of other calls. If the host can read the memory, an array below
// the crossover never uses a slot. An array on several devices is reduced by slots of each, where it lies;
// for a leaf of which two devices have a part, one of them fetches the rest.
//
// Threads: only the shard's. After an error only Release and the destructor may follow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "server/core/references/memory_registry.h"
#include "server/core/slots/slot_reducer.h"

namespace warpfold::server {

class MemoryReducer : public SlotReducer {
 public:
  struct Options {
    kernels::ReductionPlan reduction;
    std::uint64_t first_element = 0;  // a multiple of the leaf size
    std::shared_ptr<const NamedMemory> memory;
    std::uint64_t byte_offset = 0;  // in that
    std::uint64_t element_count = 0;
    std::uint64_t crossover_bytes = 0;  // arrays smaller than this are reduced on the calling thread
  };

  // As for SlotReducer.
  MemoryReducer(const PartySlots& slots, const Clock& clock, const Options& options,
                std::function<void()> listener);
  ~MemoryReducer() override { Release(); }

  // Memory that slots still read stays alive by itself.
  void Release() override;

  // UNAVAILABLE (DEVICE_LOST).
  absl::StatusOr<bool> TryFinish() override;

 private:
  // Starts a slot of the device that has the next bytes on as many of `from` as it takes.
  absl::Status Start(kernels::Slot* slot, const kernels::MemoryPart& from);
  std::uint64_t NextByte() const;

  Options options_;
  const std::uint64_t end_element_;
};

}  // namespace warpfold::server
