// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A slot that is being filled with the next bytes of an array. Bytes that the device can read where they lie
// are not copied: the slot is started on pieces of them, and whoever owns them is held until the device has
// read them. All others are copied to the slot's staging buffer.
//
// A piece keeps its whole message, with all the blocks that this was received into, from being used again.
// Together they never keep more than there are blocks; when these are used up, messages come in other memory,
// and are copied.
//
// Threads: the shard's only.
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
  // Fewer bytes than this are copied, unless they follow the last piece in its message: that costs less than
  // to hold what they lie in.
  static constexpr std::size_t kMinPieceBytes = 1024;

  // `slot` has been taken, and one start of it takes up to `capacity_bytes`. `piece_memory` is where the
  // backend takes pieces from.
  SlotFill(kernels::Slot* slot, std::size_t capacity_bytes, ByteSlice piece_memory)
      : slot_(slot), capacity_(capacity_bytes), piece_memory_(piece_memory) {}

  kernels::Slot* slot() const { return slot_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t capacity() const { return capacity_; }
  // No more can be appended: the slot is to be started.
  bool is_full() const { return bytes_ == capacity_ || pieces_.size() == kernels::Slot::kMaxPieces; }

  // Takes the first of these bytes, not while full, and returns how many. `owner` may be null: then they are
  // copied.
  std::size_t Append(ByteSlice bytes, const std::shared_ptr<const void>& owner);

  // Takes the last `byte_count` bytes away, and returns a copy of them.
  std::vector<std::byte> CutTail(std::size_t byte_count);

  // Start the slot on all bytes, as the functions of kernels::Slot do, and return what these returned.
  absl::Status Start(const kernels::ReductionPlan& reduction, std::uint64_t first_element);
  absl::Status StartSegments(const kernels::ReductionPlan& reduction, const kernels::SegmentCut& cut);
  absl::Status StartStore(const kernels::Memory& memory, std::uint64_t byte_offset);
  // What must be held until the device has read the bytes; null for nothing. Once.
  std::shared_ptr<const void> TakeOwners();

 private:
  // Whether the device can read these bytes where they lie.
  bool IsReadable(ByteSlice bytes) const;
  // Whether they follow the last piece in the memory of the same owner.
  bool Continues(ByteSlice bytes, const std::shared_ptr<const void>& owner) const;
  void Copy(ByteSlice bytes);

  kernels::Slot* slot_;
  std::size_t capacity_;
  ByteSlice piece_memory_;
  std::size_t bytes_ = 0;
  std::size_t staged_ = 0;  // of them, those in staging()
  std::vector<kernels::HostPiece> pieces_;
  std::vector<std::shared_ptr<const void>> owners_;  // each once, for neighbours come from one message
};

}  // namespace warpfold::server
