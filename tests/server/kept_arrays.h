// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that lie on the devices of a simulated world, cut anywhere, also inside an element.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/core/memory_registry.h"
#include "tests/server/fake_backend.h"
#include "tests/server/stream_script.h"

namespace warpfold::server {

// Returns the token of `data`, of which each device has a part.
inline std::string KeepArray(Random& random, FakeBackend& backend, MemoryRegistry& memories,
                             std::span<const std::byte> data) {
  std::vector<NamedMemory::Part> parts;
  for (int device = 0; device < backend.devices(); ++device) {
    const bool is_last = device + 1 == backend.devices();
    const std::size_t bytes = is_last ? data.size() : 1 + Below(random, data.size() / 2);
    std::unique_ptr<kernels::Memory> memory = backend.Allocate(device, bytes).value();
    std::copy_n(data.begin(), bytes, const_cast<std::byte*>(memory->data()));
    parts.push_back({.memory = std::move(memory), .byte_count = bytes});
    data = data.subspan(bytes);
  }
  return memories.Add(std::make_shared<const NamedMemory>(std::move(parts)));
}

}  // namespace warpfold::server
