// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What all reducers of segments that use a shard's slots have in common: they start slots on adjacent
// segments, and make messages of the results, in the order of segments, in whatever order the device
// finishes. A segment that is longer than what a slot takes, or than may be held, is reduced as a separate
// array, by the reducers of arrays.
//
// Results that the client has not taken are bounded: including those that are being made, and their errors,
// they are at most WaitingResultBytes (limits.h). Values that go to the client's memory are not in messages
// and take no room.
//
// Threads: only the shard's. After an error only Release and the destructor may follow.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/reduction.h"
#include "kernels/segments.h"
#include "server/core/clock.h"
#include "server/core/references/results_memory.h"
#include "server/core/slots/segment_cursor.h"
#include "server/core/slots/slot_pool.h"
#include "server/core/slots/slot_reducer.h"
#include "server/core/wire/byte_slices.h"
#include "server/core/wire/segment_results.h"

namespace warpfold::server {

class SegmentReducer : protected SlotPool::Holder {
 public:
  ~SegmentReducer() override = default;
  SegmentReducer(const SegmentReducer&) = delete;
  SegmentReducer& operator=(const SegmentReducer&) = delete;

  // Announces that the next segment has `length` elements; 64 bits must be able to count its bytes.
  void Announce(std::uint64_t length) { cursor_.Announce(length); }
  std::size_t waiting_lengths() const { return cursor_.waiting(); }

  // Begins the announced segments that need no bytes other than those that are there. False if there is no
  // room: the listener is called when it should be tried again.
  virtual absl::StatusOr<bool> PlaceLengths() = 0;

  // To be called when everything has been announced, and all bytes are there. True once all results are
  // messages; otherwise the listener is called when there is more to do.
  virtual absl::StatusOr<bool> TryFinish() = 0;

  // Messages with results, oldest first. After one has been taken, operations that had no room should be
  // tried again.
  bool has_message() const { return !messages_.empty(); }
  std::string TakeMessage();

  // Gives back what it holds, without waiting for work that the device is still doing. Only the destructor
  // may follow, which does the same.
  virtual void Release();

  // To be called when TryFinish has been true. Gives back the client's memory, since the client's next
  // request may be about it as soon as this call has its answer: it may name the place for results, or need
  // the room that an array takes.
  virtual void EndMemory() { memory_.reset(); }

  const absl::Status& status() const { return status_; }
  ReducerTimings timings() const;
  std::uint64_t segment_count() const { return started_segments_; }
  std::uint64_t error_count() const { return error_count_; }

 protected:
  // The pool and `clock` must outlive the reducer. `listener` is called when operations that lacked a slot or
  // room should be tried again, when there are messages, or when status() is an error. `memory` says where
  // values go, if not into messages.
  SegmentReducer(const PartySlots& slots, const Clock& clock, const kernels::ReductionPlan& reduction,
                 std::optional<std::uint64_t> segment_length, std::function<void()> listener,
                 std::optional<ResultsMemory> memory);

  // Whether there is room for results of more segments. If not, the listener is called when there is.
  bool AwaitRoom();
  // A slot to use, of `device` if one is named, or null: then the listener is called when there is one, or
  // the client must take messages.
  kernels::Slot* TakeSlot(std::optional<int> device = std::nullopt);

  // How many segments one start may have of a slot with this capacity: all of them may have errors besides
  // values.
  std::uint64_t MostSegments(std::uint64_t capacity) const;

  // The cut of the next segments that a slot is started on, and the owner that keeps the lengths alive.
  struct Cut {
    kernels::SegmentCut cut;
    std::shared_ptr<const void> owner = nullptr;
  };
  Cut CutOf(std::uint64_t segment_count, std::vector<std::uint64_t> lengths) const;
  // The slot has been started, or could not be, on the next segments.
  absl::Status Started(kernels::Slot* slot, const Cut& cut, absl::Status status, DeviceWork work = {});

  // The next segment, a long one, is reduced by `reducer`, which calls OnLongProgress.
  void AddLong(std::unique_ptr<SlotReducer> reducer);
  // Says that the reducer that was added last has all its bytes.
  void EndLong() { pending_.back().has_all_bytes = true; }
  // Tries to finish the reducers that have all their bytes.
  void FinishLongs();
  void OnLongProgress();

  // Whether everything that was started has become messages by now; otherwise the pool is told that this
  // waits for it.
  bool AllCollected();

  const kernels::ReductionPlan& reduction() const { return reduction_; }
  // Bytes of the results of a segment.
  std::size_t row_bytes() const { return results_.row_bytes(); }
  // Whether they go to the client's memory instead of into messages, and whether slots may write them there.
  bool goes_to_memory() const { return memory_.has_value(); }
  bool slots_write_memory() const { return goes_to_memory() && memory_->device_may_write(); }
  // The device that has that memory; none if the host has it, or results are sent.
  std::optional<int> device_of_results() const { return goes_to_memory() ? memory_->device() : std::nullopt; }

  SlotPool& pool_;
  const Clock& clock_;
  const std::function<void()> listener_;
  SegmentCursor cursor_;
  absl::Status status_;  // as heard from the pool

 private:
  // Adjacent segments that are being reduced: by a slot, or a single one by its own reducer.
  struct Pending {
    std::uint64_t first_segment = 0;
    kernels::Slot* slot = nullptr;   // null once it is finished
    std::uint64_t result_bytes = 0;  // that the slot will have
    std::unique_ptr<SlotReducer> reducer = nullptr;
    bool has_all_bytes = false;
    std::vector<std::string> messages = {};
    bool done = false;
  };

  void OnSlotFree() override { listener_(); }
  void OnSlotFinished(kernels::Slot*, absl::StatusOr<kernels::SlotResult>) override {}
  void OnSegmentsFinished(kernels::Slot* slot,
                          const absl::StatusOr<kernels::SegmentsResult>& result) override;

  bool HasRoom() const;
  // The most bytes of messages that a segment takes, with its errors.
  std::uint64_t MostBytesOfSegment() const;
  void FinishLong(Pending& pending);
  void Take(Pending& pending, const kernels::SegmentsResult& result);
  // Writes results that no slot has written to the client's memory, if they go there.
  void WriteToMemory(std::uint64_t first_segment, const kernels::SegmentsResult& result);
  void End(Pending& pending, std::vector<std::string> messages);

  const kernels::ReductionPlan reduction_;
  const SegmentResults results_;
  std::optional<ResultsMemory> memory_;
  std::uint64_t started_segments_ = 0;
  std::deque<Pending> pending_;       // in the order of segments
  std::deque<std::string> messages_;  // of the segments before those
  std::uint64_t message_bytes_ = 0;   // of messages_, and of those in pending_, including future ones
  // These have reduced long segments, and are finished. Any of them may be calling its listener, so none is
  // destroyed before that call is over.
  std::vector<std::unique_ptr<SlotReducer>> finished_;
  bool long_calls_ = false;  // a reducer of a long segment is calling its listener
  TimedTaker taker_;
  ReducerTimings timings_;
  std::uint64_t error_count_ = 0;
};

}  // namespace warpfold::server
