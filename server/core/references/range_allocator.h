// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Allocates ranges of a memory of fixed size, first fit: a request gets the first free range that is large
// enough.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace warpfold::server {

class RangeAllocator {
 public:
  // Ranges start at multiples of this, so that kernels can load whole vectors and a range shares no cache
  // line with another.
  static constexpr std::uint64_t kAlignment = 512;

  explicit RangeAllocator(std::uint64_t bytes) : end_(bytes), free_bytes_(bytes) {
    if (bytes > 0) free_.emplace(0, bytes);
  }

  // Returns the offset of a range of `bytes`; nothing if no free range is long enough.
  std::optional<std::uint64_t> Take(std::uint64_t bytes);
  // Gives back a range that Take returned.
  void Return(std::uint64_t offset, std::uint64_t bytes);

  // How many bytes Take uses for a range of `bytes`. A range at the end of the memory may use fewer, because
  // it cannot extend beyond that end.
  static std::uint64_t RoundUp(std::uint64_t bytes) {
    return bytes > 0 ? (bytes + kAlignment - 1) / kAlignment * kAlignment : kAlignment;
  }

  // How many bytes the longest range may have that uses at most `bytes`.
  static std::uint64_t RoundDown(std::uint64_t bytes) { return bytes - bytes % kAlignment; }

  std::uint64_t free_bytes() const { return free_bytes_; }
  std::uint64_t largest_free_bytes() const;

 private:
  // How many bytes a range at this offset takes.
  std::uint64_t Taken(std::uint64_t offset, std::uint64_t bytes) const {
    return std::min(RoundUp(bytes), end_ - offset);
  }

  const std::uint64_t end_;
  std::map<std::uint64_t, std::uint64_t> free_;  // bytes by offset; never adjacent
  std::uint64_t free_bytes_;
};

}  // namespace warpfold::server
