// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/array_reducer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace warpfold::server {

ArrayReducer::ArrayReducer(SlotShare& share, const Clock& clock, const Options& options,
                           std::function<void()> listener)
    : share_(share),
      clock_(clock),
      reduction_(options.reduction),
      crossover_bytes_(options.crossover_bytes),
      listener_(std::move(listener)),
      state_(options.reduction, options.first_element),
      next_element_(options.first_element),
      uses_slots_(options.least_bytes >= options.crossover_bytes || !options.reduction.canonical()) {}

void ArrayReducer::Release() {
  if (filling_.has_value()) share_.Return(filling_->slot);
  filling_.reset();
  share_.Leave(*this);
  started_.clear();
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
      if (held_.size() + rest.size() < reduction_.leaf_bytes()) {
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
  if (!held_.empty() && !reduction_.canonical()) {
    const std::uint64_t elements = held_.size() / reduction_.element_bytes();
    if (!StartFilling()) return false;
    kernels::Slot* const slot = filling_->slot;
    filling_.reset();
    if (absl::Status status = Start(slot, elements); !status.ok()) return status;
  }
  if (!started_.empty()) return false;
  if (!held_.empty()) ReduceTailHere();
  return status_.ok() ? absl::StatusOr<bool>(true) : status_;
}

// What remains is less than a leaf, or all of an array below the crossover.
void ArrayReducer::ReduceTailHere() {
  const absl::Time start = clock_();
  status_ = state_.Append(kernels::ReduceOnHost(reduction_, next_element_, held_));
  timings_.kernel += clock_() - start;
  held_.clear();
}

bool ArrayReducer::StartFilling() {
  kernels::Slot* const slot = share_.Take(*this);
  if (slot == nullptr) {
    if (!waiting_since_.has_value()) waiting_since_ = clock_();
    return false;
  }
  if (waiting_since_.has_value()) timings_.queue += clock_() - *std::exchange(waiting_since_, std::nullopt);
  const std::size_t room = slot->Capacity(reduction_) * reduction_.element_bytes();
  filling_.emplace(Filling{.slot = slot, .room = slot->staging().first(room), .bytes = held_.size()});
  std::copy(held_.begin(), held_.end(), filling_->room.begin());
  held_.clear();
  return true;
}

absl::Status ArrayReducer::StartFilled() {
  const Filling filled = *std::exchange(filling_, std::nullopt);
  const std::size_t leaves = filled.bytes / reduction_.leaf_bytes();
  const std::span<const std::byte> tail =
      filled.room.subspan(leaves * reduction_.leaf_bytes(), filled.bytes % reduction_.leaf_bytes());
  held_.assign(tail.begin(), tail.end());
  if (leaves > 0) return Start(filled.slot, leaves * reduction_.leaf_elements());
  share_.Return(filled.slot);
  return absl::OkStatus();
}

absl::Status ArrayReducer::Start(kernels::Slot* slot, std::uint64_t elements) {
  if (absl::Status status = share_.Start(*this, slot, reduction_, next_element_, elements); !status.ok()) {
    return status;
  }
  next_element_ += elements;
  started_.push_back({.slot = slot, .result = std::nullopt});
  // The CPU backend has mostly finished by now.
  std::optional<absl::StatusOr<kernels::SlotResult>> result = share_.Collect(slot);
  if (!result.has_value()) return absl::OkStatus();
  if (!result->ok()) return result->status();
  started_.back().result = **std::move(result);
  return AppendFinished();
}

// Slots finish in any order, but their ranges are adjacent only in the order of their starts.
absl::Status ArrayReducer::AppendFinished() {
  while (!started_.empty() && started_.front().result.has_value()) {
    const kernels::SlotResult result = *std::move(started_.front().result);
    started_.pop_front();
    timings_.copy += result.copy;
    timings_.kernel += result.kernel;
    if (absl::Status status = state_.Append(result.state); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void ArrayReducer::OnSlotFree() { listener_(); }

void ArrayReducer::OnSlotWanted() {
  status_.Update(StartFilled());
  if (!status_.ok()) listener_();
}

void ArrayReducer::OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) {
  const auto started = std::find_if(started_.begin(), started_.end(), [slot](const Started& s) {
    return s.slot == slot && !s.result.has_value();
  });
  if (result.ok()) {
    started->result = *std::move(result);
    status_.Update(AppendFinished());
  } else {
    status_.Update(result.status());
  }
  if (!status_.ok() || started_.empty()) listener_();
}

}  // namespace warpfold::server
