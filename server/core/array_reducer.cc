// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/array_reducer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace warpfold::server {

ArrayReducer::ArrayReducer(SlotShare& share, const Clock& clock, const Options& options,
                           std::function<void()> listener)
    : SlotReducer(share, clock, options.reduction, options.first_element, std::move(listener)),
      crossover_bytes_(options.crossover_bytes),
      uses_slots_(options.least_bytes >= options.crossover_bytes || !options.reduction.canonical()) {}

void ArrayReducer::Release() {
  if (filling_.has_value()) share_.Return(filling_->slot);
  filling_.reset();
  SlotReducer::Release();
  held_ = {};
  backlog_ = {};
}

absl::StatusOr<std::size_t> ArrayReducer::Append(ByteSlice bytes) {
  if (!status_.ok()) return status_;
  if (!uses_slots_) {
    if (held_.size() + bytes.size() < crossover_bytes_) {
      held_.insert(held_.end(), bytes.begin(), bytes.end());
      return bytes.size();
    }
    uses_slots_ = true;
    backlog_ = std::exchange(held_, {});
  }
  if (!backlog_.empty()) {
    if (absl::Status status = PlaceBacklog(); !status.ok()) return status;
    if (!backlog_.empty()) return 0;
  }
  return AppendToSlots(bytes);
}

absl::Status ArrayReducer::PlaceBacklog() {
  const absl::StatusOr<std::size_t> placed = AppendToSlots(std::span(backlog_).subspan(backlog_placed_));
  if (!placed.ok()) return placed.status();
  backlog_placed_ += *placed;
  if (backlog_placed_ == backlog_.size()) backlog_ = {};
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> ArrayReducer::AppendToSlots(ByteSlice bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const ByteSlice rest = bytes.subspan(taken);
    if (!filling_.has_value()) {
      if (held_.size() + rest.size() < reduction().leaf_bytes()) {
        held_.insert(held_.end(), rest.begin(), rest.end());
        return bytes.size();
      }
      if (!StartFilling()) break;
    }
    const std::size_t n = std::min(rest.size(), filling_->room.size() - filling_->bytes);
    std::memcpy(filling_->room.data() + filling_->bytes, rest.data(), n);
    filling_->bytes += n;
    taken += n;
    if (filling_->bytes < filling_->room.size()) continue;
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  return taken;
}

absl::Status ArrayReducer::Pause() {
  if (!filling_.has_value()) return absl::OkStatus();
  if (share_.waiting() > 0) return StartFilled();
  share_.SetAwaitingClient(filling_->slot, true);
  return absl::OkStatus();
}

absl::StatusOr<bool> ArrayReducer::TryFinish() {
  if (!status_.ok()) return status_;
  if (filling_.has_value()) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  if (!held_.empty() && !reduction().canonical()) {
    const std::uint64_t elements = held_.size() / reduction().element_bytes();
    if (!StartFilling()) return false;
    kernels::Slot* const slot = filling_->slot;
    filling_.reset();
    if (absl::Status status = Start(slot, elements); !status.ok()) return status;
  }
  if (!AllCollected()) return false;
  // What remains is less than a leaf, or all of an array below the crossover.
  if (!held_.empty()) ReduceHere(std::exchange(held_, {}));
  return status_.ok() ? absl::StatusOr<bool>(true) : status_;
}

bool ArrayReducer::StartFilling() {
  kernels::Slot* const slot = TakeSlot();
  if (slot == nullptr) return false;
  const std::size_t room = slot->Capacity(reduction()) * reduction().element_bytes();
  filling_.emplace(Filling{.slot = slot, .room = slot->staging().first(room), .bytes = held_.size()});
  std::copy(held_.begin(), held_.end(), filling_->room.begin());
  held_.clear();
  return true;
}

absl::Status ArrayReducer::StartFilled() {
  const Filling filled = *std::exchange(filling_, std::nullopt);
  const std::size_t leaves = filled.bytes / reduction().leaf_bytes();
  const std::span<const std::byte> tail =
      filled.room.subspan(leaves * reduction().leaf_bytes(), filled.bytes % reduction().leaf_bytes());
  held_.assign(tail.begin(), tail.end());
  if (leaves > 0) return Start(filled.slot, leaves * reduction().leaf_elements());
  share_.Return(filled.slot);
  return absl::OkStatus();
}

absl::Status ArrayReducer::Start(kernels::Slot* slot, std::uint64_t elements) {
  absl::Status status;
  {
    const DeviceCalls::Scope call(share_.device_calls());
    status = slot->Start(reduction(), next_element(), elements);
  }
  return Started(slot, elements, std::move(status));
}

}  // namespace warpfold::server
