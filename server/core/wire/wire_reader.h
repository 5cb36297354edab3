// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the fields of a serialized message one after the other, for a reader that knows which ones to expect.
//
// Threads: none of its own. The bytes must outlive the reader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/core/wire/byte_slices.h"

namespace warpfold::server {

class WireReader {
 public:
  explicit WireReader(ByteSlice bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }

  // Each of these advances only if it returns true.
  bool Skip(std::byte expected) {
    if (position_ == bytes_.size() || bytes_[position_] != expected) return false;
    ++position_;
    return true;
  }
  // A length of at most 5 bytes, whose value may exceed what a message can have.
  bool ReadLength(std::uint64_t* length) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 5 && position_ + i < bytes_.size(); ++i) {
      const auto byte = std::to_integer<std::uint64_t>(bytes_[position_ + i]);
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        *length = value;
        position_ += i + 1;
        return true;
      }
    }
    return false;
  }
  bool ReadFixed32(std::uint32_t* value) {
    if (bytes_.size() - position_ < sizeof(*value)) return false;
    *value = 0;
    for (std::size_t i = 0; i < sizeof(*value); ++i) {
      *value |= std::to_integer<std::uint32_t>(bytes_[position_ + i]) << (8 * i);
    }
    position_ += sizeof(*value);
    return true;
  }
  // The text is a view of the bytes.
  bool ReadText(std::uint64_t length, absl::string_view* text) {
    if (length > bytes_.size() - position_) return false;
    *text = {reinterpret_cast<const char*>(bytes_.data()) + position_, static_cast<std::size_t>(length)};
    position_ += length;
    return true;
  }

 private:
  const ByteSlice bytes_;
  std::size_t position_ = 0;
};

}  // namespace warpfold::server
