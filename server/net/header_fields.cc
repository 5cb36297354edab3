// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/header_fields.h"

#include <algorithm>

namespace warpfold::server {
namespace {

// The bit of a number's byte that says that another follows (RFC 7541, section 5.1). gRPC reads numbers of 32
// bits; for anything larger it reports an error, so it is not counted here.
constexpr unsigned kContinues = 0x80;
constexpr int kMaxShift = 28;

bool IsFull(unsigned byte, unsigned mask) { return (byte & mask) == mask; }

}  // namespace

void HeaderFields::Begin(bool has_priority) {
  count_ = 0;
  strings_ = 0;
  skipped_ = has_priority ? kPriorityBytes : 0;
  next_ = has_priority ? Next::kSkipped : Next::kField;
}

void HeaderFields::Take(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (next_ == Next::kSkipped) {
      const std::size_t n = std::min<std::uint64_t>(skipped_, bytes.size());
      bytes = bytes.subspan(n);
      skipped_ -= n;
      if (skipped_ == 0) BeginPart();
      continue;
    }
    TakeByte(std::to_integer<unsigned>(bytes.front()));
    bytes = bytes.subspan(1);
  }
}

void HeaderFields::TakeByte(unsigned byte) {
  switch (next_) {
    case Next::kField:
      return TakeField(byte);
    case Next::kIndex:
      if ((byte & kContinues) == 0) BeginPart();
      return;
    case Next::kLength:
      skipped_ = byte & 0x7f;  // the other bit says whether the string is in Huffman's code
      shift_ = 0;
      if (IsFull(byte, 0x7f)) {
        next_ = Next::kMore;
      } else {
        SkipString();
      }
      return;
    case Next::kMore:
      if (shift_ <= kMaxShift) skipped_ += std::uint64_t{byte & 0x7f} << shift_;
      shift_ += 7;
      if ((byte & kContinues) == 0) SkipString();
      return;
    case Next::kSkipped:
      return;  // Take does it
  }
}

void HeaderFields::TakeField(unsigned byte) {
  unsigned mask = 0;  // which bits of the byte are the number
  if ((byte & 0x80) != 0) {
    mask = 0x7f;  // the field is in the tables
    ++count_;
  } else if ((byte & 0xe0) == 0x20) {
    mask = 0x1f;  // this sets the dynamic table's size, and is not a field
  } else {
    // The number of a name in the tables, or 0: then the name follows.
    mask = (byte & 0x40) != 0 ? 0x3f : 0x0f;
    strings_ = (byte & mask) == 0 ? 2 : 1;
    ++count_;
  }
  if (IsFull(byte, mask)) {
    next_ = Next::kIndex;
  } else {
    BeginPart();
  }
}

void HeaderFields::BeginPart() { next_ = strings_ > 0 ? Next::kLength : Next::kField; }

void HeaderFields::SkipString() {
  --strings_;
  if (skipped_ > 0) {
    next_ = Next::kSkipped;
  } else {
    BeginPart();
  }
}

}  // namespace warpfold::server
