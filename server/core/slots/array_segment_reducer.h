// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces the segments of an array that arrives in pieces.
//
// A slot is filled with segments, one after the other (slot_fill.h says which bytes are copied). It is
// started when the next segment would not find room in it, as a whole or with its results. A slot that waits
// for the client may be revoked (slot_pool.h): its complete segments are started, and the bytes of the
// incomplete one are held elsewhere until there is a slot again. These are at most kMaxHeldBytes: a longer
// segment is reduced as a separate array (docs/adr/0129).
//
// Threads: only the shard's. After an error only Release and the destructor may follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "server/core/slots/array_reducer.h"
#include "server/core/slots/array_sink.h"
#include "server/core/slots/segment_reducer.h"
#include "server/core/slots/slot_fill.h"

namespace warpfold::server {

class ArraySegmentReducer : public SegmentReducer, public ArraySink {
 public:
  // As for SegmentReducer. Without `segment_length` all lengths are announced.
  ArraySegmentReducer(const PartySlots& slots, const Clock& clock, const kernels::ReductionPlan& reduction,
                      std::optional<std::uint64_t> segment_length, std::function<void()> listener,
                      std::optional<ResultsMemory> results = std::nullopt);
  ~ArraySegmentReducer() override { Release(); }

  // UNAVAILABLE (DEVICE_LOST). INVALID_ARGUMENT (BAD_LENGTHS) for bytes that belong to no announced segment.
  absl::StatusOr<std::size_t> Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) override;
  bool waits_for_slot() const override {
    return long_ != nullptr ? long_->waits_for_slot() : pool_.Waits(*this);
  }
  absl::Status Pause() override;
  std::uint64_t held_bytes() const override { return held_.size(); }

  // Reduces the next announced segments, as long as they have no elements.
  absl::StatusOr<bool> PlaceLengths() override;
  // The last segment must be complete.
  absl::StatusOr<bool> TryFinish() override;
  void Release() override;

 private:
  // A slot that is being filled.
  struct Batch {
    SlotFill fill;
    std::uint64_t most_segments;              // as MostSegments says
    std::size_t complete_bytes = 0;           // of complete segments
    std::uint64_t segments = 0;               // complete ones
    std::vector<std::uint64_t> lengths = {};  // theirs, if they differ

    std::size_t free_bytes() const { return fill.capacity() - fill.bytes(); }
  };

  void OnSlotWanted() override;

  // Takes the next segments that are complete in these bytes, as far as the batch has room, all at once: the
  // device then reads one piece for each slice in which the rows came, instead of one for each row. Returns
  // their number of bytes: 0 also if it took only segments without elements. The segment after them must be
  // begun with BeginSegment.
  absl::StatusOr<std::size_t> PutCompleteSegments(ByteSlice bytes, const std::shared_ptr<const void>& owner);
  absl::StatusOr<bool> BeginSegment();
  absl::StatusOr<std::size_t> Put(ByteSlice bytes, const std::shared_ptr<const void>& owner);
  absl::Status EndSegment();
  void BeginLong(std::uint64_t bytes);
  bool StartFilling();
  absl::Status StartIfFull();
  absl::Status StartFilled();

  std::optional<Batch> batch_;
  bool in_segment_ = false;          // one has begun, and its last byte has not come
  std::uint64_t length_ = 0;         // of that one
  std::uint64_t missing_bytes_ = 0;  // of that one
  ArrayReducer* long_ = nullptr;     // takes that one, if it is long
  std::vector<std::byte> held_;      // of that one, while there is no slot
};

}  // namespace warpfold::server
