// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/memory_reducer.h"

#include <algorithm>
#include <utility>

namespace warpfold::server {

MemoryReducer::MemoryReducer(const SlotUse& slots, const Clock& clock, const Options& options,
                             std::function<void()> listener)
    : SlotReducer(slots, clock, options.reduction, options.first_element, std::move(listener)),
      options_(options),
      end_element_(options.first_element + options.element_count) {}

absl::StatusOr<bool> MemoryReducer::TryFinish() {
  if (!status_.ok()) return status_;
  const kernels::Memory& memory = options_.memory->memory();
  const std::uint64_t array_bytes = options_.element_count * reduction().element_bytes();
  if (next_element() < end_element_ && memory.host_can_read() && array_bytes < options_.crossover_bytes &&
      reduction().canonical()) {
    ReduceHere(std::span(memory.data() + NextByte(), array_bytes));
    return status_.ok() ? absl::StatusOr<bool>(true) : status_;
  }
  while (next_element() < end_element_) {
    kernels::Slot* const slot = TakeSlot();
    if (slot == nullptr) return false;
    const std::uint64_t elements =
        std::min(end_element_ - next_element(), slot->CapacityFrom(reduction(), memory, NextByte()));
    absl::Status status;
    {
      const DeviceCalls::Scope call(share_.device_calls());
      status = slot->StartFrom(reduction(), next_element(), elements, memory, NextByte());
    }
    // Kernels read what lies on the device at terabytes a second.
    const InUse in_use = {.memory = options_.memory, .ends_soon = !memory.host_can_read()};
    if (status = Started(slot, elements, std::move(status), in_use); !status.ok()) return status;
  }
  return AllCollected();
}

void MemoryReducer::Release() {
  SlotReducer::Release();
  options_.memory.reset();
}

std::uint64_t MemoryReducer::NextByte() const {
  return options_.memory->byte_offset() + options_.byte_offset +
         (next_element() - options_.first_element) * reduction().element_bytes();
}

}  // namespace warpfold::server
