// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
#include "server/array_reducer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace warpfold::server {

ArrayReducer::ArrayReducer(Engine& engine, const CallControl& call, const kernels::Reduction& reduction,
                           std::uint64_t first_element)
    : engine_(engine),
      call_(call),
      reduction_(reduction),
      state_(reduction, first_element),
      next_element_(first_element),
      uses_slots_(engine.cpu_crossover_bytes == 0 || !reduction.canonical()) {}

ArrayReducer::~ArrayReducer() {
  for (SlotPool::Lease& lease : started_) static_cast<void>(lease->Wait());
}

absl::Status ArrayReducer::Append(ByteSlice bytes) {
  if (!uses_slots_) {
    if (held_.size() + bytes.size() < engine_.cpu_crossover_bytes) {
      held_.insert(held_.end(), bytes.begin(), bytes.end());
      return absl::OkStatus();
    }
    uses_slots_ = true;
    const std::vector<std::byte> small = std::exchange(held_, {});
    if (absl::Status status = AppendToSlots(small); !status.ok()) return status;
  }
  return AppendToSlots(bytes);
}

absl::Status ArrayReducer::AppendToSlots(ByteSlice bytes) {
  while (!bytes.empty()) {
    if (!filling_.has_value()) {
      if (held_.size() + bytes.size() < reduction_.leaf_bytes()) {
        held_.insert(held_.end(), bytes.begin(), bytes.end());
        return absl::OkStatus();
      }
      if (absl::Status status = StartFilling(); !status.ok()) return status;
    }
    const std::size_t n = std::min(bytes.size(), filling_->room.size() - filling_->bytes);
    std::memcpy(filling_->room.data() + filling_->bytes, bytes.data(), n);
    filling_->bytes += n;
    bytes = bytes.subspan(n);
    if (filling_->bytes == filling_->room.size()) {
      if (absl::Status status = StartFilled(); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ArrayReducer::Drain() {
  if (filling_.has_value()) {
    if (absl::Status status = StartFilled(); !status.ok()) return status;
  }
  while (!started_.empty()) {
    if (absl::Status status = CollectOldest(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<kernels::PartialState> ArrayReducer::Finish() {
  if (absl::Status status = Drain(); !status.ok()) return status;
  if (absl::Status status = ReduceTail(); !status.ok()) return status;
  return state_;
}

// What Drain has left: less than a leaf, or all of an array below the crossover.
absl::Status ArrayReducer::ReduceTail() {
  if (held_.empty()) return absl::OkStatus();
  if (reduction_.canonical()) {
    const absl::Time start = engine_.clock();
    const kernels::PartialState tail = kernels::ReduceOnHost(reduction_, next_element_, held_);
    timings_.kernel += engine_.clock() - start;
    return state_.Append(tail);
  }
  const std::uint64_t elements = held_.size() / reduction_.element_bytes();
  if (absl::Status status = StartFilling(); !status.ok()) return status;
  SlotPool::Lease lease = std::move(filling_->lease);
  filling_.reset();
  if (absl::Status status = lease->Start(reduction_, next_element_, elements); !status.ok()) return status;
  started_.push_back(std::move(lease));
  return CollectOldest();
}

absl::StatusOr<SlotPool::Lease> ArrayReducer::NextLease() {
  while (!started_.empty()) {
    if (started_.size() == 1) {
      // The overlap that makes it fast. Not by Acquire: whoever blocks for a slot must hold none.
      std::optional<SlotPool::Lease> lease = engine_.slots.TryAcquire();
      if (lease.has_value()) return *std::move(lease);
    }
    if (absl::Status status = CollectOldest(); !status.ok()) return status;
  }
  const absl::Time start = engine_.clock();
  absl::StatusOr<SlotPool::Lease> lease = engine_.slots.Acquire(call_);
  timings_.queue += engine_.clock() - start;
  return lease;
}

absl::Status ArrayReducer::StartFilling() {
  if (call_.stopped()) return call_.status();
  absl::StatusOr<SlotPool::Lease> lease = NextLease();
  if (!lease.ok()) return lease.status();
  const std::size_t room = (*lease)->Capacity(reduction_) * reduction_.element_bytes();
  filling_.emplace(Filling{.lease = *std::move(lease), .room = {}, .bytes = held_.size()});
  filling_->room = filling_->lease->staging().first(room);
  std::copy(held_.begin(), held_.end(), filling_->room.begin());
  held_.clear();
  return absl::OkStatus();
}

absl::Status ArrayReducer::StartFilled() {
  Filling filled = std::move(*filling_);
  filling_.reset();
  const std::size_t leaves = filled.bytes / reduction_.leaf_bytes();
  const std::span<const std::byte> tail =
      filled.room.subspan(leaves * reduction_.leaf_bytes(), filled.bytes % reduction_.leaf_bytes());
  held_.assign(tail.begin(), tail.end());
  if (leaves == 0) return absl::OkStatus();

  const std::uint64_t elements = leaves * reduction_.leaf_elements();
  if (absl::Status status = filled.lease->Start(reduction_, next_element_, elements); !status.ok()) {
    return status;
  }
  next_element_ += elements;
  started_.push_back(std::move(filled.lease));
  return absl::OkStatus();
}

absl::Status ArrayReducer::CollectOldest() {
  SlotPool::Lease lease = std::move(started_.front());
  started_.pop_front();
  absl::StatusOr<kernels::SlotResult> result = lease->Wait();
  if (!result.ok()) return result.status();
  timings_.copy += result->copy;
  timings_.kernel += result->kernel;
  return state_.Append(result->state);
}

}  // namespace warpfold::server
