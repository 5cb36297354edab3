// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces the segments of an array that arrives in pieces.
//
// A slot is filled with segments, one after the other (slot_fill.h says which bytes are copied). It is
// started when the next segment would not find room in it, as a whole or with its results. A slot that waits
// for the client may be called in (slot_pool.h): its whole segments are started, and the bytes of the one
// that is not whole are kept on the side until there is a slot again. They are kMaxHeldBytes at most: a
// longer segment is reduced as an array of its own (docs/adr/0129).
//
// Threads: the shard's only. After an error only Release and the destructor may follow.
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
  // As SegmentReducer's. Without `segment_length` all lengths are announced.
  ArraySegmentReducer(const PartySlots& slots, const Clock& clock, const kernels::ReductionPlan& reduction,
                      std::optional<std::uint64_t> segment_length, std::function<void()> listener);
  ~ArraySegmentReducer() override { Release(); }

  // UNAVAILABLE (DEVICE_LOST). INVALID_ARGUMENT (BAD_LENGTHS) for bytes that no length cuts.
  absl::StatusOr<std::size_t> Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) override;
  bool waits_for_slot() const override {
    return long_ != nullptr ? long_->waits_for_slot() : pool_.Waits(*this);
  }
  absl::Status Pause() override;
  std::uint64_t held_bytes() const override { return held_.size(); }

  // Reduces the announced segments without elements that come next.
  absl::StatusOr<bool> PlaceLengths() override;
  // The last segment must be whole.
  absl::StatusOr<bool> TryFinish() override;
  void Release() override;

 private:
  // A slot that is being filled.
  struct Batch {
    SlotFill fill;
    std::uint64_t most_segments;              // as MostSegments says
    std::size_t complete_bytes = 0;           // of complete segments
    std::uint64_t segments = 0;               // complete ones
    std::vector<std::uint64_t> lengths = {};  // theirs, where they differ

    std::size_t free_bytes() const { return fill.capacity() - fill.bytes(); }
  };

  void OnSlotWanted() override;

  // Takes the next segments that are complete in these bytes, as far as the batch has room, all at once: the
  // device then reads as many pieces as the rows came in slices, and not as many as there are rows. Returns
  // their bytes: 0 also where it took only segments without elements. The next segment after that has to be
  // begun by BeginSegment.
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
