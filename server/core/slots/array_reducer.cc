// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/array_reducer.h"

#include <algorithm>
#include <utility>

namespace warpfold::server {
namespace {

// Towards the end of an array, slots are filled to at least their capacity divided by this: each start costs
// the host some 20 us.
constexpr std::uint64_t kSmallestSlots = 8;

}  // namespace

ArrayReducer::ArrayReducer(const PartySlots& slots, const Clock& clock, const Options& options,
                           std::function<void()> listener)
    : SlotReducer(slots, clock, options.reduction, options.first_element, std::move(listener)),
      crossover_bytes_(std::max(options.crossover_bytes, options.reduction.leaf_bytes() + 1)),
      end_element_(options.first_element + options.least_bytes / options.reduction.element_bytes()),
      uses_slots_(options.least_bytes >= crossover_bytes_ || !options.reduction.canonical()) {}

void ArrayReducer::Release() {
  if (fill_.has_value()) pool_.Return(fill_->slot());
  fill_.reset();
  SlotReducer::Release();
  held_ = {};
  lent_ = {};
  lender_ = nullptr;
  backlog_ = {};
}

absl::StatusOr<std::size_t> ArrayReducer::Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) {
  if (!status_.ok()) return status_;
  if (!uses_slots_) {
    if (lent_.size() + held_.size() + bytes.size() < crossover_bytes_) {
      Hold(bytes, owner);
      return bytes.size();
    }
    HoldLent();
    uses_slots_ = true;
    backlog_ = std::exchange(held_, {});
  }
  if (!backlog_.empty()) {
    if (absl::Status status = PlaceBacklog(); !status.ok()) return status;
    if (!backlog_.empty()) return 0;
  }
  return AppendToSlots(bytes, owner);
}

void ArrayReducer::Hold(ByteSlice bytes, const std::shared_ptr<const void>& owner) {
  if (owner != nullptr && held_.empty() && lent_.empty()) {
    lent_ = bytes;
    lender_ = owner;
    return;
  }
  HoldLent();
  held_.insert(held_.end(), bytes.begin(), bytes.end());
}

void ArrayReducer::HoldLent() {
  held_.insert(held_.end(), lent_.begin(), lent_.end());
  lent_ = {};
  lender_ = nullptr;
}

absl::Status ArrayReducer::PlaceBacklog() {
  const absl::StatusOr<std::size_t> placed =
      AppendToSlots(std::span(backlog_).subspan(backlog_placed_), nullptr);
  if (!placed.ok()) return placed.status();
  backlog_placed_ += *placed;
  if (backlog_placed_ == backlog_.size()) backlog_ = {};
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> ArrayReducer::AppendToSlots(ByteSlice bytes,
                                                        const std::shared_ptr<const void>& owner) {
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const ByteSlice rest = bytes.subspan(taken);
    if (!fill_.has_value()) {
      if (held_.size() + rest.size() < reduction().leaf_bytes()) {
        held_.insert(held_.end(), rest.begin(), rest.end());
        return bytes.size();
      }
      if (!StartFilling()) break;
    }
    taken += fill_->Append(rest, owner);
    if (!fill_->is_full()) continue;
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  return taken;
}

absl::Status ArrayReducer::Pause() {
  HoldLent();
  if (!fill_.has_value()) return absl::OkStatus();
  if (pool_.waiting() > 0) return StartFilled();
  fill_->LetOwnersGo();
  pool_.SetAwaitingClient(fill_->slot(), true);
  return absl::OkStatus();
}

absl::StatusOr<bool> ArrayReducer::TryFinish() {
  if (!status_.ok()) return status_;
  if (fill_.has_value()) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  if (!held_.empty() && !reduction().canonical()) {
    if (!StartFilling()) return false;
    if (absl::Status status = Start(*std::exchange(fill_, std::nullopt)); !status.ok()) return status;
  }
  if (!AllCollected()) return false;
  // Less than a leaf remains, or a whole array below the crossover: the host reduces it.
  if (!held_.empty()) ReduceHere(std::exchange(held_, {}));
  if (!lent_.empty()) ReduceHere(std::exchange(lent_, {}));
  return status_.ok() ? absl::StatusOr<bool>(true) : status_;
}

bool ArrayReducer::StartFilling() {
  kernels::Slot* const slot = TakeSlot();
  if (slot == nullptr) return false;
  fill_.emplace(slot, BytesToFill(*slot));
  fill_->Append(held_, nullptr);
  held_.clear();
  return true;
}

// Half of the rest from two slots on, in whole leaves, and finally all of it. If a slot is reduced within
// Start, nothing is left to do anyway; if an algorithm is named, the bits depend on the cut.
std::size_t ArrayReducer::BytesToFill(const kernels::Slot& slot) const {
  const std::uint64_t leaf = reduction().leaf_bytes();
  const std::uint64_t capacity = slot.Capacity(reduction()) * reduction().element_bytes();
  if (next_element() >= end_element_ || slot.EndsInStart() || !reduction().canonical()) return capacity;
  const std::uint64_t rest = (end_element_ - next_element()) * reduction().element_bytes();
  const std::uint64_t whole_leaves = std::max(rest / leaf, std::uint64_t{1}) * leaf;
  const std::uint64_t share = std::max(rest / 2, capacity / kSmallestSlots);
  return std::min({capacity, whole_leaves, (share + leaf - 1) / leaf * leaf});
}

absl::Status ArrayReducer::StartFilled() {
  SlotFill filled = *std::exchange(fill_, std::nullopt);
  held_ = filled.CutTail(filled.bytes() % reduction().leaf_bytes());
  if (filled.bytes() > 0) return Start(std::move(filled));
  pool_.Return(filled.slot());
  return absl::OkStatus();
}

absl::Status ArrayReducer::Start(SlotFill fill) {
  const std::uint64_t bytes = fill.bytes();
  absl::Status started;
  {
    const DeviceCalls::Scope call(pool_.device_calls());
    started = fill.Start(reduction(), next_element());
  }
  // Work that a CPU has not finished within Start takes long, and polling for its end would occupy a core.
  const absl::Duration poll = fill.slot()->EndsInStart() ? absl::ZeroDuration() : PollForFetched(bytes);
  return Started(fill.slot(), bytes / reduction().element_bytes(), std::move(started),
                 {.memory = fill.TakeOwners(), .poll = poll});
}

}  // namespace warpfold::server
