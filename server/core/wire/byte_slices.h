// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A received message as the transport holds it: pieces of memory that someone else owns, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace warpfold::server {

using ByteSlice = std::span<const std::byte>;
using ByteSlices = std::span<const ByteSlice>;

inline std::uint64_t TotalBytes(ByteSlices slices) {
  std::uint64_t total = 0;
  for (const ByteSlice slice : slices) total += slice.size();
  return total;
}

}  // namespace warpfold::server
