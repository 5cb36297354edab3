// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/references/resident_pool.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "proto/leaf.h"

namespace warpfold::server {
namespace {

std::uint64_t DivideUp(std::uint64_t a, std::uint64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

ResidentPool::ResidentPool(std::vector<std::unique_ptr<kernels::Memory>> memories, std::uint64_t part_bytes)
    : part_bytes_(part_bytes) {
  for (std::unique_ptr<kernels::Memory>& memory : memories) {
    const RangeAllocator ranges(memory->size());
    banks_.push_back({.memory = std::move(memory), .ranges = ranges});
  }
}

std::vector<NamedMemory::Part> ResidentPool::Take(std::uint64_t bytes) {
  const std::uint64_t worth = std::clamp<std::uint64_t>(DivideUp(bytes, part_bytes_), 1, banks_.size());
  std::vector<NamedMemory::Part> parts;
  for (std::uint64_t count = worth; parts.empty() && count > 0; --count) parts = TakeParts(bytes, count);
  for (std::uint64_t count = worth + 1; parts.empty() && count <= banks_.size(); ++count) {
    parts = TakeParts(bytes, count);
  }
  return parts;
}

// Parts are whole leaves, so that no leaf of an array of scalars lies on two devices.
std::vector<NamedMemory::Part> ResidentPool::TakeParts(std::uint64_t bytes, std::uint64_t count) {
  const std::uint64_t each = DivideUp(DivideUp(bytes, kLeafBytes), count) * kLeafBytes;
  std::vector<Bank*> emptiest;
  for (Bank& bank : banks_) emptiest.push_back(&bank);
  std::stable_sort(emptiest.begin(), emptiest.end(), [](const Bank* a, const Bank* b) {
    return a->ranges.largest_free_bytes() > b->ranges.largest_free_bytes();
  });
  std::vector<NamedMemory::Part> parts;
  std::uint64_t left = bytes;
  while (parts.empty() || left > 0) {
    Bank& bank = *emptiest[parts.size()];
    const std::uint64_t part_bytes = std::min(left, each);
    const std::optional<std::uint64_t> offset = bank.ranges.Take(part_bytes);
    if (!offset.has_value()) {
      Return(parts);
      return {};
    }
    parts.push_back({.memory = bank.memory, .byte_offset = *offset, .byte_count = part_bytes});
    left -= part_bytes;
  }
  return parts;
}

void ResidentPool::Return(const std::vector<NamedMemory::Part>& parts) {
  for (const NamedMemory::Part& part : parts) {
    for (Bank& bank : banks_) {
      if (bank.memory == part.memory) bank.ranges.Return(part.byte_offset, part.byte_count);
    }
  }
}

std::uint64_t ResidentPool::bytes() const {
  std::uint64_t bytes = 0;
  for (const Bank& bank : banks_) bytes += bank.memory->size();
  return bytes;
}

std::uint64_t ResidentPool::free_bytes() const {
  std::uint64_t bytes = 0;
  for (const Bank& bank : banks_) bytes += bank.ranges.free_bytes();
  return bytes;
}

std::uint64_t ResidentPool::LargestArray() const {
  std::vector<std::uint64_t> largest;  // free range of each device
  for (const Bank& bank : banks_) largest.push_back(bank.ranges.largest_free_bytes());
  std::sort(largest.begin(), largest.end(), std::greater<>());
  std::uint64_t bytes = largest.front();
  for (std::size_t count = 2; count <= largest.size(); ++count) {
    const std::uint64_t together = count * (largest[count - 1] / kLeafBytes * kLeafBytes);
    bytes = std::max(bytes, together);
  }
  return bytes;
}

}  // namespace warpfold::server
