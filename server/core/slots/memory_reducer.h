// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces an array that lies in a NamedMemory. Nothing is copied to the staging buffers of slots: a slot is
// only a queue of the device here, and calls take turns to get one. If the host can read the memory, an array
// below the crossover uses no slot. If parts of the array are on several devices, slots of each device reduce
// its part; a leaf that extends over two devices is reduced by one of them, which fetches the rest of it.
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
    std::uint64_t byte_offset = 0;  // of the array in `memory`
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
  // Starts `slot`, which belongs to the device that has the next bytes, on as many bytes of `from` as it can
  // take.
  absl::Status Start(kernels::Slot* slot, const kernels::MemoryPart& from);
  std::uint64_t NextByte() const;

  Options options_;
  const std::uint64_t end_element_;
};

}  // namespace warpfold::server
