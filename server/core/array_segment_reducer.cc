// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/array_segment_reducer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::server {

ArraySegmentReducer::ArraySegmentReducer(const SlotUse& slots, const Clock& clock,
                                         const kernels::ReductionPlan& reduction,
                                         std::optional<std::uint64_t> segment_length,
                                         std::function<void()> listener)
    : SegmentReducer(slots, clock, reduction, segment_length, std::move(listener)) {}

void ArraySegmentReducer::Release() {
  if (filling_.has_value()) share_.Return(filling_->slot);
  filling_.reset();
  SegmentReducer::Release();
  held_ = {};
}

absl::StatusOr<std::size_t> ArraySegmentReducer::Append(ByteSlice bytes) {
  if (!status_.ok()) return status_;
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    if (!in_segment_) {
      const absl::StatusOr<bool> begun = BeginSegment();
      if (!begun.ok()) return begun.status();
      if (!*begun) break;
      continue;
    }
    const std::size_t wanted = std::min<std::uint64_t>(bytes.size() - taken, missing_bytes_);
    const absl::StatusOr<std::size_t> put = Put(bytes.subspan(taken, wanted));
    if (!put.ok()) return put.status();
    if (*put == 0) break;
    taken += *put;
    missing_bytes_ -= *put;
    if (missing_bytes_ > 0) continue;
    if (absl::Status status = EndSegment(); !status.ok()) return status;
  }
  return taken;
}

// False where there is no room for it.
absl::StatusOr<bool> ArraySegmentReducer::BeginSegment() {
  if (!cursor_.HasNext()) {
    return kernels::Error(absl::StatusCode::kInvalidArgument, reason::kBadLengths,
                          "elements came that no length cuts: lengths come before the elements",
                          {{"field", "lengths"}});
  }
  const std::uint64_t bytes = cursor_.NextLength() * reduction().element_bytes();
  if (filling_.has_value() && bytes > filling_->free_bytes()) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  if (!filling_.has_value() && !StartFilling()) return false;
  length_ = cursor_.NextLength();
  missing_bytes_ = bytes;
  in_segment_ = true;
  cursor_.Pass();
  if (bytes > filling_->room.size()) BeginWhole(bytes);
  if (bytes > 0) return true;
  const absl::Status status = EndSegment();
  return status.ok() ? absl::StatusOr<bool>(true) : status;
}

void ArraySegmentReducer::BeginWhole(std::uint64_t bytes) {
  share_.Return(filling_->slot);
  filling_.reset();
  auto whole = std::make_unique<ArrayReducer>(
      SlotUse(share_, party()), clock_, ArrayReducer::Options{.reduction = reduction(), .least_bytes = bytes},
      [this] { OnWholeProgress(); });
  whole_ = whole.get();
  AddWhole(std::move(whole));
}

absl::StatusOr<std::size_t> ArraySegmentReducer::Put(ByteSlice bytes) {
  if (whole_ != nullptr) return whole_->Append(bytes);
  if (!filling_.has_value()) {
    if (!StartFilling()) return 0;
    std::copy(held_.begin(), held_.end(), filling_->room.begin());
    filling_->bytes = held_.size();
    held_ = {};
  }
  std::memcpy(filling_->room.data() + filling_->bytes, bytes.data(), bytes.size());
  filling_->bytes += bytes.size();
  return bytes.size();
}

absl::Status ArraySegmentReducer::EndSegment() {
  in_segment_ = false;
  if (whole_ != nullptr) {
    whole_ = nullptr;
    EndWhole();
    FinishWholes();
    return status_;
  }
  ++filling_->segments;
  filling_->whole_bytes = filling_->bytes;
  if (!cursor_.length().has_value()) filling_->lengths.push_back(length_);
  const bool is_full = filling_->segments == filling_->most_segments ||
                       (cursor_.length().has_value() &&
                        filling_->free_bytes() < *cursor_.length() * reduction().element_bytes());
  return is_full ? StartFilled() : absl::OkStatus();
}

absl::Status ArraySegmentReducer::Pause() {
  if (whole_ != nullptr) return whole_->Pause();
  if (!filling_.has_value()) return absl::OkStatus();
  if (share_.waiting() > 0) return StartFilled();
  share_.SetAwaitingClient(filling_->slot, true);
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
  if (filling_.has_value()) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  const bool finished = AllCollected();
  return status_.ok() ? absl::StatusOr<bool>(finished) : status_;
}

bool ArraySegmentReducer::StartFilling() {
  kernels::Slot* const slot = TakeSlot();
  if (slot == nullptr) return false;
  filling_.emplace(
      Filling{.slot = slot, .room = slot->staging(), .most_segments = slot->SegmentCapacity(reduction())});
  return true;
}

// Starts the slot on its whole segments, and keeps the bytes of the one that is not.
absl::Status ArraySegmentReducer::StartFilled() {
  Filling filled = *std::exchange(filling_, std::nullopt);
  const auto rest = filled.room.subspan(filled.whole_bytes, filled.bytes - filled.whole_bytes);
  held_.assign(rest.begin(), rest.end());
  if (filled.segments == 0) {
    share_.Return(filled.slot);
    return absl::OkStatus();
  }
  const Cut cut = CutOf(filled.segments, std::move(filled.lengths));
  absl::Status started;
  {
    const DeviceCalls::Scope call(share_.device_calls());
    started = filled.slot->StartSegments(reduction(), cut.cut);
  }
  return Started(filled.slot, cut, std::move(started));
}

void ArraySegmentReducer::OnSlotWanted() {
  if (!filling_.has_value()) return;
  status_.Update(StartFilled());
  if (!status_.ok()) listener_();
}

}  // namespace warpfold::server
