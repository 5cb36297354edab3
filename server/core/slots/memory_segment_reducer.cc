// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/memory_segment_reducer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/core/slots/memory_reducer.h"

namespace warpfold::server {
namespace {

// The number of starts with which an array on the device is reduced if there are many results, so that those
// of one are sent while the next one works; but there is no start for fewer results than these.
constexpr std::uint64_t kStartsOfManyResults = 4;
constexpr std::uint64_t kMinResultBytes = 128 << 10;
// The same if results go to memory, for more than four times as many bytes of the array. Copying those of the
// last start takes less time if that is a small one, but a start should take the device longer than the host
// takes to begin the next one: 0.1 ms on an H200.
constexpr std::uint64_t kBytesOfStart = 512 << 20;

// How many starts there are without a look at other events, if work mostly ends in Start: each takes a CPU up
// to BackendOptions::inline_time.
constexpr int kStartsAtOnce = 8;

}  // namespace

MemorySegmentReducer::MemorySegmentReducer(const PartySlots& slots, const Clock& clock,
                                           const Options& options, std::function<void()> listener)
    : SegmentReducer(slots, clock, options.reduction, options.segment_length, std::move(listener),
                     options.results),
      options_(options) {
  options_.results.reset();  // the base class has them
}

bool MemorySegmentReducer::HasNext() const {
  // Segments of one length end with the array.
  return cursor_.length().has_value() ? next_element_ < options_.element_count : cursor_.HasNext();
}

absl::StatusOr<bool> MemorySegmentReducer::PlaceLengths() {
  const std::uint64_t element_bytes = reduction().element_bytes();
  int ended_in_start = 0;
  while (status_.ok() && HasNext()) {
    const kernels::MemoryPart from = options_.memory->From(NextByte());
    const std::optional<int> device = from.memory->device();
    const std::uint64_t most_elements =
        std::min(pool_.SlotOf(device).SegmentElementsFrom(reduction(), *from.memory, from.byte_offset),
                 from.byte_count / element_bytes);
    if (cursor_.NextLength() > most_elements) {
      if (!AwaitRoom()) return false;
      status_.Update(StartLong());
      continue;
    }
    if (ended_in_start == kStartsAtOnce) {
      pool_.GiveWay(*this, device);
      return false;
    }
    kernels::Slot* const slot = TakeSlot(device);
    if (slot == nullptr) return false;
    if (slot->EndsInStart()) ++ended_in_start;
    status_.Update(Start(slot, from, most_elements));
  }
  return status_.ok() ? absl::StatusOr<bool>(true) : status_;
}

// Starts the slot on as many segments as it takes, at least one.
absl::Status MemorySegmentReducer::Start(kernels::Slot* slot, const kernels::MemoryPart& from,
                                         std::uint64_t most_elements) {
  const std::uint64_t most_segments =
      MostSegments(slots_write_memory() && cursor_.length().has_value()
                       ? slot->SegmentCapacityFrom(reduction(), *from.memory, from.byte_offset)
                       : slot->SegmentCapacity(reduction()));
  std::uint64_t segments = 0;
  std::uint64_t elements = 0;
  std::vector<std::uint64_t> lengths;
  if (cursor_.length().has_value()) {
    const std::uint64_t left = (options_.element_count - next_element_) / *cursor_.length();
    segments = std::min({left, most_segments, most_elements / *cursor_.length()});
    if (!from.memory->host_can_read()) segments = std::min(segments, SegmentsOfStart(*from.memory));
    elements = segments * *cursor_.length();
  } else {
    while (cursor_.HasNext() && segments < most_segments &&
           cursor_.NextLength() <= most_elements - elements) {
      elements += cursor_.NextLength();
      lengths.push_back(cursor_.NextLength());
      ++segments;
      cursor_.Pass();
    }
  }
  next_element_ += elements;
  const Cut cut = CutOf(segments, std::move(lengths));
  absl::Status started;
  {
    const DeviceCalls::Scope call(pool_.device_calls());
    started = slot->StartSegmentsFrom(reduction(), cut.cut, *from.memory, from.byte_offset);
  }
  const bool is_fetched = from.memory->host_can_read();
  const std::uint64_t array_bytes = options_.element_count * reduction().element_bytes();
  return Started(
      slot, cut, std::move(started),
      {.memory = options_.memory, .poll = is_fetched ? absl::ZeroDuration() : PollForMemory(array_bytes)});
}

std::uint64_t MemorySegmentReducer::SegmentsOfStart(const kernels::Memory& from) const {
  const std::uint64_t all = options_.element_count / *cursor_.length();
  const std::uint64_t fewest = std::max<std::uint64_t>(kMinResultBytes / row_bytes(), 1);
  std::uint64_t starts = kStartsOfManyResults;
  if (device_of_results().has_value() && device_of_results() == from.device()) {
    starts = 1;  // no results are copied
  } else if (goes_to_memory()) {
    starts = std::max(starts, options_.element_count * reduction().element_bytes() / kBytesOfStart);
  }
  return std::max(fewest, (all + starts - 1) / starts);
}

absl::Status MemorySegmentReducer::StartLong() {
  const std::uint64_t length = cursor_.NextLength();
  AddLong(std::make_unique<MemoryReducer>(PartySlots(pool_, party()), clock_,
                                          MemoryReducer::Options{.reduction = reduction(),
                                                                 .memory = options_.memory,
                                                                 .byte_offset = NextByte(),
                                                                 .element_count = length},
                                          [this] { OnLongProgress(); }));
  EndLong();
  cursor_.Pass();
  next_element_ += length;
  FinishLongs();
  return status_;
}

absl::StatusOr<bool> MemorySegmentReducer::TryFinish() {
  const absl::StatusOr<bool> placed = PlaceLengths();
  if (!placed.ok() || !*placed) return placed;
  const bool finished = AllCollected();
  return status_.ok() ? absl::StatusOr<bool>(finished) : status_;
}

void MemorySegmentReducer::EndMemory() {
  SegmentReducer::EndMemory();
  options_.memory.reset();
}

void MemorySegmentReducer::Release() {
  SegmentReducer::Release();
  options_.memory.reset();
}

std::uint64_t MemorySegmentReducer::NextByte() const {
  return options_.byte_offset + next_element_ * reduction().element_bytes();
}

}  // namespace warpfold::server
