// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/array_segment_reducer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/error.h"
#include "proto/error_reasons.h"
#include "server/core/limits.h"

namespace warpfold::server {

ArraySegmentReducer::ArraySegmentReducer(const PartySlots& slots, const Clock& clock,
                                         const kernels::ReductionPlan& reduction,
                                         std::optional<std::uint64_t> segment_length,
                                         std::function<void()> listener, std::optional<ResultsMemory> results)
    : SegmentReducer(slots, clock, reduction, segment_length, std::move(listener), std::move(results)) {}

void ArraySegmentReducer::Release() {
  if (batch_.has_value()) pool_.Return(batch_->fill.slot());
  batch_.reset();
  SegmentReducer::Release();
  held_ = {};
}

absl::StatusOr<std::size_t> ArraySegmentReducer::Append(ByteSlice bytes,
                                                        const std::shared_ptr<const void>& owner) {
  if (!status_.ok()) return status_;
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    if (!in_segment_) {
      const absl::StatusOr<std::size_t> complete = PutCompleteSegments(bytes.subspan(taken), owner);
      if (!complete.ok()) return complete.status();
      taken += *complete;
      if (*complete > 0) continue;
      const absl::StatusOr<bool> begun = BeginSegment();
      if (!begun.ok()) return begun.status();
      if (!*begun) break;
      continue;
    }
    const std::size_t wanted = std::min<std::uint64_t>(bytes.size() - taken, missing_bytes_);
    const absl::StatusOr<std::size_t> put = Put(bytes.subspan(taken, wanted), owner);
    if (!put.ok()) return put.status();
    if (*put == 0) break;
    taken += *put;
    missing_bytes_ -= *put;
    if (missing_bytes_ > 0) continue;
    if (absl::Status status = EndSegment(); !status.ok()) return status;
  }
  return taken;
}

absl::StatusOr<std::size_t> ArraySegmentReducer::PutCompleteSegments(
    ByteSlice bytes, const std::shared_ptr<const void>& owner) {
  if (!batch_.has_value()) return 0;
  const std::size_t room = std::min(bytes.size(), batch_->free_bytes());
  std::size_t taken = 0;
  for (; batch_->segments < batch_->most_segments && cursor_.HasNext(); ++batch_->segments) {
    const std::uint64_t segment_bytes = cursor_.NextLength() * reduction().element_bytes();
    if (segment_bytes > room - taken) break;
    if (!cursor_.length().has_value()) batch_->lengths.push_back(cursor_.NextLength());
    cursor_.Pass();
    taken += segment_bytes;
  }
  if (taken > 0) batch_->fill.Append(bytes.first(taken), owner);
  batch_->complete_bytes = batch_->fill.bytes();
  if (absl::Status status = StartIfFull(); !status.ok()) return status;
  return taken;
}

// False if there is no room for it.
absl::StatusOr<bool> ArraySegmentReducer::BeginSegment() {
  if (!cursor_.HasNext()) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadLengths,
                          "elements came that no length cuts: lengths come before the elements",
                          {{"field", "lengths"}});
  }
  const std::uint64_t bytes = cursor_.NextLength() * reduction().element_bytes();
  const bool is_long = bytes > std::min<std::uint64_t>(pool_.slot_bytes(), kMaxHeldBytes);
  if (batch_.has_value() && (is_long || bytes > batch_->free_bytes())) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  if (is_long ? !AwaitRoom() : !batch_.has_value() && !StartFilling()) return false;
  length_ = cursor_.NextLength();
  missing_bytes_ = bytes;
  in_segment_ = true;
  cursor_.Pass();
  if (is_long) BeginLong(bytes);
  if (bytes > 0) return true;
  const absl::Status status = EndSegment();
  return status.ok() ? absl::StatusOr<bool>(true) : status;
}

void ArraySegmentReducer::BeginLong(std::uint64_t bytes) {
  // Starts of less than a slot towards its end would be for the last segment alone.
  const std::uint64_t least_bytes = bytes > pool_.slot_bytes() ? bytes : 0;
  auto reducer = std::make_unique<ArrayReducer>(
      PartySlots(pool_, party()), clock_,
      ArrayReducer::Options{.reduction = reduction(), .least_bytes = least_bytes},
      [this] { OnLongProgress(); });
  long_ = reducer.get();
  AddLong(std::move(reducer));
}

absl::StatusOr<std::size_t> ArraySegmentReducer::Put(ByteSlice bytes,
                                                     const std::shared_ptr<const void>& owner) {
  if (long_ != nullptr) return long_->Append(bytes, owner);
  // The slot has room for the segment's bytes: it can only be full because it has kMaxPieces pieces.
  if (batch_.has_value() && batch_->fill.is_full()) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  if (!batch_.has_value()) {
    if (!StartFilling()) return 0;
    batch_->fill.Append(held_, nullptr);
    held_ = {};
  }
  return batch_->fill.Append(bytes, owner);
}

absl::Status ArraySegmentReducer::EndSegment() {
  in_segment_ = false;
  if (long_ != nullptr) {
    long_ = nullptr;
    EndLong();
    FinishLongs();
    return status_;
  }
  ++batch_->segments;
  batch_->complete_bytes = batch_->fill.bytes();
  if (!cursor_.length().has_value()) batch_->lengths.push_back(length_);
  return StartIfFull();
}

absl::Status ArraySegmentReducer::StartIfFull() {
  const bool is_full = batch_->segments == batch_->most_segments || batch_->fill.is_full() ||
                       (cursor_.length().has_value() &&
                        batch_->free_bytes() < *cursor_.length() * reduction().element_bytes());
  return is_full ? StartFilled() : absl::OkStatus();
}

absl::Status ArraySegmentReducer::Pause() {
  if (long_ != nullptr) return long_->Pause();
  if (!batch_.has_value()) return absl::OkStatus();
  if (pool_.waiting() > 0) return StartFilled();
  batch_->fill.LetOwnersGo();
  pool_.SetAwaitingClient(batch_->fill.slot(), true);
  return absl::OkStatus();
}

absl::StatusOr<bool> ArraySegmentReducer::PlaceLengths() {
  if (!status_.ok()) return status_;
  while (!in_segment_ && !cursor_.length().has_value() && cursor_.HasNext() && cursor_.NextLength() == 0) {
    const absl::StatusOr<bool> begun = BeginSegment();
    if (!begun.ok() || !*begun) return begun;
  }
  return true;
}

absl::StatusOr<bool> ArraySegmentReducer::TryFinish() {
  const absl::StatusOr<bool> placed = PlaceLengths();
  if (!placed.ok() || !*placed) return placed;
  if (batch_.has_value()) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  const bool finished = AllCollected();
  return status_.ok() ? absl::StatusOr<bool>(finished) : status_;
}

bool ArraySegmentReducer::StartFilling() {
  kernels::Slot* const slot = TakeSlot();
  if (slot == nullptr) return false;
  batch_.emplace(Batch{.fill = SlotFill(slot, slot->staging().size()),
                       .most_segments = MostSegments(slot->SegmentCapacity(reduction()))});
  return true;
}

// Starts the slot on its complete segments, and keeps the bytes of the incomplete one.
absl::Status ArraySegmentReducer::StartFilled() {
  Batch filled = *std::exchange(batch_, std::nullopt);
  SlotFill& fill = filled.fill;
  held_ = fill.CutTail(fill.bytes() - filled.complete_bytes);
  if (filled.segments == 0) {
    pool_.Return(fill.slot());
    return absl::OkStatus();
  }
  const Cut cut = CutOf(filled.segments, std::move(filled.lengths));
  absl::Status started;
  {
    const DeviceCalls::Scope call(pool_.device_calls());
    started = fill.StartSegments(reduction(), cut.cut);
  }
  return Started(fill.slot(), cut, std::move(started), {.memory = fill.TakeOwners()});
}

void ArraySegmentReducer::OnSlotWanted() {
  if (!batch_.has_value()) return;
  status_.Update(StartFilled());
  // On a CPU the results are already there, and nothing else would report them.
  if (!status_.ok() || has_message()) listener_();
}

}  // namespace warpfold::server
