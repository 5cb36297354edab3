// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/memory_reducer.h"

#include <algorithm>
#include <utility>

namespace warpfold::server {

MemoryReducer::MemoryReducer(const PartySlots& slots, const Clock& clock, const Options& options,
                             std::function<void()> listener)
    : SlotReducer(slots, clock, options.reduction, options.first_element, std::move(listener)),
      options_(options),
      end_element_(options.first_element + options.element_count) {}

absl::StatusOr<bool> MemoryReducer::TryFinish() {
  if (!status_.ok()) return status_;
  const std::uint64_t array_bytes = options_.element_count * reduction().element_bytes();
  while (next_element() < end_element_) {
    const kernels::MemoryPart from = options_.memory->From(NextByte());
    if (from.memory->host_can_read() && array_bytes < options_.crossover_bytes && reduction().canonical()) {
      ReduceHere(std::span(from.memory->data() + from.byte_offset, array_bytes));
      if (!status_.ok()) return status_;
      continue;
    }
    kernels::Slot* const slot = TakeSlot(from.memory->device());
    if (slot == nullptr) return false;
    if (absl::Status status = Start(slot, from); !status.ok()) return status;
  }
  const bool finished = AllCollected();
  // Not only when the call ends: the client's next request may need the room (SegmentReducer::EndMemory).
  if (finished) options_.memory.reset();
  return finished;
}

absl::Status MemoryReducer::Start(kernels::Slot* slot, const kernels::MemoryPart& from) {
  const std::uint64_t left = end_element_ - next_element();
  const std::uint64_t most = slot->CapacityFrom(reduction(), *from.memory, from.byte_offset);
  std::uint64_t elements = std::min(left, most);
  if (elements * reduction().element_bytes() > from.byte_count) {
    elements = from.byte_count / reduction().leaf_bytes() * reduction().leaf_elements();
  }
  const bool is_across = elements == 0;
  if (is_across) elements = std::min(left, reduction().leaf_elements());
  absl::Status started;
  {
    const DeviceCalls::Scope call(pool_.device_calls());
    started =
        is_across
            ? slot->StartAcross(reduction(), next_element(), elements,
                                options_.memory->Range(NextByte(), elements * reduction().element_bytes()))
            : slot->StartFrom(reduction(), next_element(), elements, *from.memory, from.byte_offset);
  }
  const bool is_fetched = from.memory->host_can_read();
  const std::uint64_t array_bytes = options_.element_count * reduction().element_bytes();
  return Started(
      slot, elements, std::move(started),
      {.memory = options_.memory, .poll = is_fetched ? absl::ZeroDuration() : PollForMemory(array_bytes)});
}

void MemoryReducer::Release() {
  SlotReducer::Release();
  options_.memory.reset();
}

std::uint64_t MemoryReducer::NextByte() const {
  return options_.byte_offset + (next_element() - options_.first_element) * reduction().element_bytes();
}

}  // namespace warpfold::server
