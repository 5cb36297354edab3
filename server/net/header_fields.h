// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the fields of a header block as HPACK writes them (RFC 7541, section 6), however its bytes are cut.
// It decodes none, and so needs no table: each representation says how long it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace warpfold::server {

// Threads: one at a time.
class HeaderFields {
 public:
  // Begins with a block. A frame with a priority has its five bytes before the first field (RFC 9113, 6.2).
  void Begin(bool has_priority);
  // Takes the bytes that came next.
  void Take(std::span<const std::byte> bytes);
  // How many fields the block has so far, the one that has only begun among them.
  int count() const { return count_; }

 private:
  // What the next byte is.
  enum class Next {
    kField,   // the first of a field, or of a change of the table's size
    kIndex,   // another of the number that begins a field
    kLength,  // the first of a string's length
    kMore,    // another of a string's length
    kSkipped  // one of a string
  };

  void TakeByte(unsigned byte);
  void TakeField(unsigned byte);
  // Goes on with what the field still has, or with the next one.
  void BeginPart();
  void SkipString();

  Next next_ = Next::kField;
  int count_ = 0;
  int strings_ = 0;  // that the field still has
  int shift_ = 0;    // of the next seven bits of a length
  std::uint64_t skipped_ = 0;
};

}  // namespace warpfold::server
