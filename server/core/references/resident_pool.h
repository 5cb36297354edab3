// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory for kept arrays: of one device, or the same amount of each of several. If there are several,
// a large array is split into equal parts, one for each device, so that all of them reduce it together (ADR
// 88).
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/memory.h"
#include "server/core/references/memory_registry.h"
#include "server/core/references/range_allocator.h"

namespace warpfold::server {

class ResidentPool {
 public:
  // Memory of one device each. Arrays are split so that parts have about `part_bytes`, if there are enough
  // devices.
  ResidentPool(std::vector<std::unique_ptr<kernels::Memory>> memories, std::uint64_t part_bytes);

  // Room for an array, in as many parts as its size justifies, else in as many as there is room for. Nothing
  // if there is no room.
  std::vector<NamedMemory::Part> Take(std::uint64_t bytes);
  // Gives back parts that Take returned.
  void Return(const std::vector<NamedMemory::Part>& parts);

  std::uint64_t bytes() const;
  std::uint64_t free_bytes() const;
  // The largest array that Take finds room for in any case. A slightly larger one may happen to fit, too.
  std::uint64_t LargestArray() const;

 private:
  // The memory of one device.
  struct Bank {
    std::shared_ptr<const kernels::Memory> memory;
    RangeAllocator ranges;
  };

  std::vector<NamedMemory::Part> TakeParts(std::uint64_t bytes, std::uint64_t count);

  const std::uint64_t part_bytes_;
  std::vector<Bank> banks_;
};

}  // namespace warpfold::server
