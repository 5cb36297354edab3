// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/references/range_allocator.h"

#include <algorithm>
#include <iterator>

namespace warpfold::server {

std::optional<std::uint64_t> RangeAllocator::Take(std::uint64_t bytes) {
  if (bytes > free_bytes_) return std::nullopt;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [offset, size] = *range;
    const std::uint64_t wanted = Taken(offset, bytes);
    if (size < std::max(wanted, bytes)) continue;
    free_.erase(range);
    if (size > wanted) free_.emplace(offset + wanted, size - wanted);
    free_bytes_ -= wanted;
    return offset;
  }
  return std::nullopt;
}

void RangeAllocator::Return(std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t size = Taken(offset, bytes);
  free_bytes_ += size;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

std::uint64_t RangeAllocator::largest_free_bytes() const {
  std::uint64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return largest;
}

}  // namespace warpfold::server
