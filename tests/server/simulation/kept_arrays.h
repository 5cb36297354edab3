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

#include "server/core/calls/service.h"
#include "server/core/references/memory_registry.h"
#include "tests/server/fake_backend.h"
#include "tests/server/simulation/stream_script.h"

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

// Keeps `data` in the room for clients' arrays, for ever; returns the token.
inline std::string PutArray(Service& service, ElementLayout layout, std::span<const std::byte> data) {
  const ResidentArrays::Request request = {.party = "a party",
                                           .owner = "an owner",
                                           .layout = layout,
                                           .element_count = data.size() / ElementTypeBytes(layout.type),
                                           .byte_count = data.size(),
                                           .time_to_live = {}};
  const std::shared_ptr<const NamedMemory> array =
      service.residents.Reserve(request, service.clock()).value();
  for (const kernels::MemoryPart& part : array->Range(0, data.size())) {
    std::copy_n(data.begin(), part.byte_count,
                const_cast<std::byte*>(part.memory->data()) + part.byte_offset);
    data = data.subspan(part.byte_count);
  }
  return service.residents.Publish(array, service.clock());
}

}  // namespace warpfold::server
