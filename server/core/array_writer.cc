// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/array_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace warpfold::server {

absl::StatusOr<std::size_t> ArrayWriter::Append(ByteSlice bytes) {
  if (!status_.ok()) return status_;
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    if (!filling_.has_value()) {
      const kernels::MemoryPart to = memory_->From(stored_bytes_);
      kernels::Slot* const slot = share_.Take(*this, to.memory->device());
      if (slot == nullptr) break;
      filling_.emplace(Filling{.slot = slot, .to = to});
    }
    const std::span<std::byte> staging = filling_->slot->staging();
    const std::span<std::byte> room =
        staging.first(std::min(staging.size(), filling_->to.byte_count)).subspan(filling_->bytes);
    const std::size_t n = std::min(room.size(), bytes.size() - taken);
    std::memcpy(room.data(), bytes.data() + taken, n);
    filling_->bytes += n;
    taken += n;
    if (n < room.size()) continue;
    if (absl::Status status = StoreFilled(); !status.ok()) return status;
  }
  return taken;
}

absl::Status ArrayWriter::Pause() {
  if (!filling_.has_value()) return absl::OkStatus();
  if (share_.waiting() > 0) return StoreFilled();
  share_.SetAwaitingClient(filling_->slot, true);
  return absl::OkStatus();
}

absl::StatusOr<bool> ArrayWriter::TryFinish() {
  if (!status_.ok()) return status_;
  if (filling_.has_value()) {
    if (absl::Status status = StoreFilled(); !status.ok()) return status;
  }
  if (in_flight_ > 0) share_.AwaitFinish(*this);
  return in_flight_ == 0;
}

void ArrayWriter::Release() {
  if (filling_.has_value()) share_.Return(filling_->slot);
  filling_.reset();
  share_.Leave(*this);
  memory_.reset();
}

absl::Status ArrayWriter::StoreFilled() {
  const Filling filled = *std::exchange(filling_, std::nullopt);
  absl::Status tried;
  {
    const DeviceCalls::Scope call(share_.device_calls());
    tried = filled.slot->StartStore(*filled.to.memory, filled.to.byte_offset, filled.bytes);
  }
  const absl::Status started =
      share_.Started(*this, filled.slot, tried, {.memory = memory_, .look = {}, .bytes = filled.bytes});
  if (!started.ok()) return started;
  stored_bytes_ += filled.bytes;
  const std::optional<absl::StatusOr<kernels::SlotResult>> result = share_.CollectAtOnce(filled.slot);
  if (!result.has_value()) ++in_flight_;
  return result.has_value() ? result->status() : absl::OkStatus();
}

void ArrayWriter::OnSlotWanted() {
  status_.Update(StoreFilled());
  if (!status_.ok()) listener_();
}

void ArrayWriter::OnSlotFinished(kernels::Slot*, absl::StatusOr<kernels::SlotResult> result) {
  --in_flight_;
  status_.Update(result.status());
  if (!status_.ok() || in_flight_ == 0) listener_();
}

}  // namespace warpfold::server
