// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory in which messages arrive, and from which a backend takes pieces. Memory that nobody holds any more
// is overwritten at once: whoever still reads it gets a wrong result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/core/wire/message.h"
#include "tests/server/requests.h"

namespace warpfold::server {

// Threads: one.
class PieceHeap {
 public:
  static constexpr std::size_t kBytes = std::size_t{128} << 10;

  std::span<const std::byte> memory() const { return {bytes_.get(), kBytes}; }
  // How many messages somebody holds.
  std::size_t held() const { return held_; }

  // Like MessageOf: in this memory, `skew` bytes after the last one, or elsewhere if there is no room.
  Message MessageIn(const std::string& bytes, const std::vector<std::size_t>& cuts, std::size_t skew) {
    if (held_ == 0) used_ = 0;
    if (used_ + skew + bytes.size() > kBytes) return MessageOf(bytes, cuts);
    std::byte* const begin = bytes_.get() + used_ + skew;
    used_ += skew + bytes.size();
    ++held_;
    std::transform(bytes.begin(), bytes.end(), begin, [](char c) { return static_cast<std::byte>(c); });
    Message message;
    for (const ByteSlice slice : Cut(bytes, cuts)) {
      message.slices.emplace_back(begin + (slice.data() - AsBytes(bytes).data()), slice.size());
    }
    message.owner = std::shared_ptr<const void>(begin, [this, begin, size = bytes.size()](const void*) {
      std::fill_n(begin, size, std::byte{0xa5});
      --held_;
    });
    return message;
  }

 private:
  // Whole pages, as a device requires them.
  std::unique_ptr<std::byte, void (*)(void*)> bytes_{
      static_cast<std::byte*>(std::aligned_alloc(4096, kBytes)), std::free};
  std::size_t used_ = 0;
  std::size_t held_ = 0;
};

}  // namespace warpfold::server
