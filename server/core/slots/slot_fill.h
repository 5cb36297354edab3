// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A slot that is being filled with the next bytes of an array. Bytes that the device can read where they lie
// are not copied: the slot is started on pieces of them, and their owner is held until the device has read
// them. All others are copied to their places in the slot's staging buffer.
//
// A piece keeps its whole message, with all the blocks that it was received into, from being reused. For a
// GPU there are few of these blocks: when they are used up, messages come in other memory, and are copied. A
// CPU takes any memory, and has read it when the slot has been started; so that no message is held there
// until the client's next one, LetOwnersGo copies the bytes of a slot that is not full.
//
// Threads: only the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "server/core/wire/byte_slices.h"

namespace warpfold::server {

class SlotFill {
 public:
  // Fewer bytes than this are copied, unless they follow the last piece in its message: copying costs less
  // than holding the message in which they lie.
  static constexpr std::size_t kMinPieceBytes = 1024;

  // `slot` must have been taken; one start of it takes up to `capacity_bytes`.
  SlotFill(kernels::Slot* slot, std::size_t capacity_bytes) : slot_(slot), capacity_(capacity_bytes) {}

  kernels::Slot* slot() const { return slot_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t capacity() const { return capacity_; }
  // No more can be appended: the slot should be started.
  bool is_full() const { return bytes_ == capacity_ || pieces_.size() == kernels::Slot::kMaxPieces; }

  // Takes the first of these bytes, and returns how many. Not to be called while full. `owner` may be null:
  // then they are copied.
  std::size_t Append(ByteSlice bytes, const std::shared_ptr<const void>& owner);

  // Takes the last `byte_count` bytes away, and returns a copy of them.
  std::vector<std::byte> CutTail(std::size_t byte_count);

  // To be called before the client is waited for: releases the owners, unless the device keeps pieces.
  void LetOwnersGo();

  // These start the slot on all bytes, like the functions of kernels::Slot, and return what those returned.
  absl::Status Start(const kernels::ReductionPlan& reduction, std::uint64_t first_element);
  absl::Status StartSegments(const kernels::ReductionPlan& reduction, const kernels::SegmentCut& cut);
  absl::Status StartStore(const kernels::Memory& memory, std::uint64_t byte_offset);
  // What must be held until the device has read the bytes; null for nothing. To be called once, after a
  // start.
  std::shared_ptr<const void> TakeOwners();

 private:
  bool IsStaged(ByteSlice piece) const;
  // Whether they follow the last piece in the memory of the same owner.
  bool Continues(ByteSlice bytes, const std::shared_ptr<const void>& owner) const;
  void Copy(ByteSlice bytes);

  kernels::Slot* slot_;
  std::size_t capacity_;
  std::size_t bytes_ = 0;
  std::vector<kernels::HostPiece> pieces_;
  std::vector<std::shared_ptr<const void>> owners_;  // each once: adjacent pieces share a message
};

}  // namespace warpfold::server
