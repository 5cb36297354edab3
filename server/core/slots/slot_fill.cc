// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/slot_fill.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace warpfold::server {

std::size_t SlotFill::Append(ByteSlice bytes, const std::shared_ptr<const void>& owner) {
  const ByteSlice taken = bytes.first(std::min(bytes.size(), capacity_ - bytes_));
  if (owner != nullptr && Continues(taken, owner)) {
    pieces_.back() = {pieces_.back().data(), pieces_.back().size() + taken.size()};
  } else if (owner != nullptr && taken.size() >= kMinPieceBytes && slot_->Reads(taken)) {
    pieces_.push_back(taken);
    if (owners_.empty() || owners_.back() != owner) owners_.push_back(owner);
  } else {
    Copy(taken);
  }
  bytes_ += taken.size();
  return taken.size();
}

bool SlotFill::IsStaged(ByteSlice piece) const {
  // Only std::less orders pointers into different objects.
  constexpr std::less_equal<> kNotAfter;
  const ByteSlice staging = slot_->staging();
  return kNotAfter(staging.data(), piece.data()) &&
         kNotAfter(piece.data() + piece.size(), staging.data() + staging.size());
}

bool SlotFill::Continues(ByteSlice bytes, const std::shared_ptr<const void>& owner) const {
  return !owners_.empty() && owners_.back() == owner && !pieces_.empty() &&
         pieces_.back().data() + pieces_.back().size() == bytes.data() && !IsStaged(pieces_.back()) &&
         slot_->Reads(bytes);
}

void SlotFill::Copy(ByteSlice bytes) {
  if (bytes.empty()) return;
  std::byte* const to = slot_->staging().data() + bytes_;
  std::memcpy(to, bytes.data(), bytes.size());
  // A piece that ends there is staged, too: as many bytes precede it in staging() as are in the pieces before
  // it.
  const bool is_next = !pieces_.empty() && pieces_.back().data() + pieces_.back().size() == to;
  if (is_next) {
    pieces_.back() = {pieces_.back().data(), pieces_.back().size() + bytes.size()};
  } else {
    pieces_.emplace_back(to, bytes.size());
  }
}

std::vector<std::byte> SlotFill::CutTail(std::size_t byte_count) {
  std::vector<std::byte> tail(byte_count);
  bytes_ -= byte_count;
  while (byte_count > 0) {
    kernels::HostPiece& last = pieces_.back();
    const std::size_t n = std::min(byte_count, last.size());
    byte_count -= n;
    std::memcpy(tail.data() + byte_count, last.data() + last.size() - n, n);
    last = last.first(last.size() - n);
    if (last.empty()) pieces_.pop_back();
  }
  return tail;
}

void SlotFill::LetOwnersGo() {
  if (owners_.empty() || slot_->KeepsPieces()) return;
  std::byte* to = slot_->staging().data();
  for (const kernels::HostPiece piece : pieces_) {
    if (!IsStaged(piece)) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  owners_.clear();
  pieces_.clear();
  if (bytes_ > 0) pieces_.emplace_back(slot_->staging().first(bytes_));
}

absl::Status SlotFill::Start(const kernels::ReductionPlan& reduction, std::uint64_t first_element) {
  const std::uint64_t elements = bytes_ / reduction.element_bytes();
  // If all bytes were copied, they lie in one piece.
  if (owners_.empty()) return slot_->Start(reduction, first_element, elements);
  return slot_->StartPieces(reduction, first_element, elements, pieces_);
}

absl::Status SlotFill::StartSegments(const kernels::ReductionPlan& reduction,
                                     const kernels::SegmentCut& cut) {
  // If the tail was cut off, there may be owners and no bytes: for segments without elements.
  return owners_.empty() || pieces_.empty() ? slot_->StartSegments(reduction, cut)
                                            : slot_->StartSegmentPieces(reduction, cut, pieces_);
}

absl::Status SlotFill::StartStore(const kernels::Memory& memory, std::uint64_t byte_offset) {
  return owners_.empty() ? slot_->StartStore(memory, byte_offset, bytes_)
                         : slot_->StartStorePieces(memory, byte_offset, pieces_);
}

std::shared_ptr<const void> SlotFill::TakeOwners() {
  if (owners_.empty() || !slot_->KeepsPieces()) return nullptr;
  return std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(owners_));
}

}  // namespace warpfold::server
