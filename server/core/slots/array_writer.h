// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes an array that arrives in pieces to memory of the device, using a shard's slots: like ArrayReducer,
// but the work of a slot is a copy.
//
// Threads: only the shard's. After an error only Release and the destructor may follow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/references/memory_registry.h"
#include "server/core/slots/array_sink.h"
#include "server/core/slots/slot_fill.h"
#include "server/core/slots/slot_pool.h"

namespace warpfold::server {

class ArrayWriter : public ArraySink, private SlotPool::Holder {
 public:
  // The pool must outlive the writer. `listener` is called from the pool when an Append that took less than
  // it was given, or a TryFinish that was not done, should be tried again, or when status() is an error.
  ArrayWriter(const PartySlots& slots, std::shared_ptr<const NamedMemory> memory,
              std::function<void()> listener)
      : Holder(slots.party), pool_(slots.pool), memory_(std::move(memory)), listener_(std::move(listener)) {}
  ~ArrayWriter() override { Release(); }

  // UNAVAILABLE (DEVICE_LOST). No more bytes than the memory has room for.
  absl::StatusOr<std::size_t> Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) override;
  bool waits_for_slot() const override { return pool_.Waits(*this); }
  absl::Status Pause() override;

  // To be called when all bytes have been appended. True once they are in the memory.
  absl::StatusOr<bool> TryFinish();

  // Gives back what it holds, without waiting for copies that the device is still making.
  void Release();

  // The error that the pool reported, if any.
  const absl::Status& status() const { return status_; }

 private:
  // A slot that is being filled, and where its bytes go.
  struct Store {
    SlotFill fill;
    kernels::MemoryPart to;
  };

  void OnSlotFree() override { listener_(); }
  void OnSlotWanted() override;
  void OnSlotFinished(kernels::Slot* slot, absl::StatusOr<kernels::SlotResult> result) override;
  absl::Status StoreFilled();

  SlotPool& pool_;
  std::shared_ptr<const NamedMemory> memory_;
  const std::function<void()> listener_;
  absl::Status status_;
  std::uint64_t stored_bytes_ = 0;  // bytes whose copies have been started, or are done
  int in_flight_ = 0;
  std::optional<Store> store_;
};

}  // namespace warpfold::server
