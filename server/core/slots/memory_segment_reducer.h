// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces the segments of an array that lies in a NamedMemory. Nothing is copied to the staging buffers of
// slots: a slot is only a queue of the device here.
//
// Threads: only the shard's. After an error only Release and the destructor may follow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "server/core/references/memory_registry.h"
#include "server/core/slots/segment_reducer.h"

namespace warpfold::server {

class MemorySegmentReducer : public SegmentReducer {
 public:
  struct Options {
    kernels::ReductionPlan reduction;
    std::optional<std::uint64_t> segment_length;  // none: all lengths are announced
    std::shared_ptr<const NamedMemory> memory;
    std::uint64_t byte_offset = 0;    // of the array in `memory`
    std::uint64_t element_count = 0;  // of all segments
    std::optional<ResultsMemory> results = {};
  };

  // As for SegmentReducer.
  MemorySegmentReducer(const PartySlots& slots, const Clock& clock, const Options& options,
                       std::function<void()> listener);
  ~MemorySegmentReducer() override { Release(); }

  // Reduces all announced segments. Together they must have no more elements than there are.
  absl::StatusOr<bool> PlaceLengths() override;
  absl::StatusOr<bool> TryFinish() override;
  void EndMemory() override;
  void Release() override;

 private:
  void OnSlotWanted() override {}

  bool HasNext() const;
  absl::Status Start(kernels::Slot* slot, const kernels::MemoryPart& from, std::uint64_t most_elements);
  absl::Status StartLong();
  // The maximum number of segments of one length for one start. If there are many results, they come from
  // several starts.
  std::uint64_t SegmentsOfStart(const kernels::Memory& from) const;
  std::uint64_t NextByte() const;

  Options options_;
  std::uint64_t next_element_ = 0;
};

}  // namespace warpfold::server
