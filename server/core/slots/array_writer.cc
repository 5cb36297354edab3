// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/array_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace warpfold::server {

absl::StatusOr<std::size_t> ArrayWriter::Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) {
  if (!status_.ok()) return status_;
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    if (!store_.has_value()) {
      const kernels::MemoryPart to = memory_->From(stored_bytes_);
      kernels::Slot* const slot = pool_.Take(*this, to.memory->device());
      if (slot == nullptr) break;
      const std::size_t capacity = std::min<std::uint64_t>(slot->staging().size(), to.byte_count);
      store_.emplace(Store{.fill = SlotFill(slot, capacity), .to = to});
    }
    taken += store_->fill.Append(bytes.subspan(taken), owner);
    if (!store_->fill.is_full()) continue;
    if (absl::Status status = StoreFilled(); !status.ok()) return status;
  }
  return taken;
}

absl::Status ArrayWriter::Pause() {
  if (!store_.has_value()) return absl::OkStatus();
  if (pool_.waiting() > 0) return StoreFilled();
  store_->fill.LetOwnersGo();
  pool_.SetAwaitingClient(store_->fill.slot(), true);
  return absl::OkStatus();
}

absl::StatusOr<bool> ArrayWriter::TryFinish() {
  if (!status_.ok()) return status_;
  if (store_.has_value()) {
    if (absl::Status status = StoreFilled(); !status.ok()) return status;
  }
  if (in_flight_ > 0) pool_.AwaitFinish(*this);
  return in_flight_ == 0;
}

void ArrayWriter::Release() {
  if (store_.has_value()) pool_.Return(store_->fill.slot());
  store_.reset();
  pool_.Leave(*this);
  memory_.reset();
}

absl::Status ArrayWriter::StoreFilled() {
  Store filled = *std::exchange(store_, std::nullopt);
  SlotFill& fill = filled.fill;
  const std::uint64_t bytes = fill.bytes();
  absl::Status tried;
  {
    const DeviceCalls::Scope call(pool_.device_calls());
    tried = fill.StartStore(*filled.to.memory, filled.to.byte_offset);
  }
  // Both sides of the copy must stay until the device has made it.
  auto held = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      memory_, fill.TakeOwners());
  const absl::Status started =
      pool_.Started(*this, fill.slot(), tried, {.memory = std::move(held), .poll = {}, .bytes = bytes});
  if (!started.ok()) return started;
  stored_bytes_ += bytes;
  const std::optional<absl::StatusOr<kernels::SlotResult>> result = pool_.CollectAtOnce(fill.slot());
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
