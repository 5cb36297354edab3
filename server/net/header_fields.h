// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the fields of a header block in HPACK (RFC 7541, section 6), however its bytes are split. It decodes
// none of them, and so needs no table: each representation says how long it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace warpfold::server {

// Threads: one at a time.
class HeaderFields {
 public:
  // The bytes of a frame's priority before the first field (RFC 9113, section 6.2).
  static constexpr std::uint32_t kPriorityBytes = 5;

  // Begins a block, whose first frame contains at least its priority.
  void Begin(bool has_priority);
  // Takes the bytes that came next.
  void Take(std::span<const std::byte> bytes);
  // How many fields the block has so far, including one that has only begun.
  int count() const { return count_; }

 private:
  // What the next byte is.
  enum class Next {
    kField,   // the first byte of a field, or of a change of the table's size
    kIndex,   // another byte of the number that a field begins with
    kLength,  // the first byte of a string's length
    kMore,    // another byte of a string's length
    kSkipped  // a byte of a string, or of the priority
  };

  void TakeByte(unsigned byte);
  void TakeField(unsigned byte);
  // The next byte begins the field's next string; or the next field, if there is none.
  void BeginPart();
  void SkipString();

  Next next_ = Next::kField;
  int count_ = 0;
  int strings_ = 0;            // how many strings of the field are still to come
  int shift_ = 0;              // the position of a length's next seven bits
  std::uint64_t skipped_ = 0;  // how many bytes are to be skipped
};

}  // namespace warpfold::server
