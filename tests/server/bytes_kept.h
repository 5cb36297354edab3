// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Looks into arrays that a server over a fake backend keeps.
#pragma once

#include <string>

#include "server/core/calls/service.h"

namespace warpfold::server {

// The bytes that are kept under this token.
inline std::string BytesKept(const Service& service, const std::string& token) {
  const auto memory = service.memories.Find(token, service.clock());
  if (!memory.ok()) return "no such array";
  std::string bytes;
  for (const kernels::MemoryPart& part : (*memory)->Range(0, (*memory)->byte_count())) {
    bytes.append(reinterpret_cast<const char*>(part.memory->data()) + part.byte_offset, part.byte_count);
  }
  return bytes;
}

}  // namespace warpfold::server
