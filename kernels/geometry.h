// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The shape of the canonical order: how an array is cut into leaves and a leaf into lanes. Part of the
// v1 API; docs/canonical-order.md is its specification.
#pragma once

#include <cstdint>

namespace warpfold::kernels {

inline constexpr std::uint64_t kLeafBytes = 4096;
// An array ends at most this many bytes from its start, so that no index, offset or size of a subtree
// overflows 64 bits.
inline constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 62;
inline constexpr int kLanes = 32;
inline constexpr int kVectorBytes = 16;
inline constexpr int kRowBytes = kLanes * kVectorBytes;
inline constexpr int kLeafRows = static_cast<int>(kLeafBytes) / kRowBytes;

// Elements in one leaf: the largest power of two that fits kLeafBytes, and at least 1.
constexpr std::uint64_t LeafElements(std::uint64_t element_bytes) {
  std::uint64_t elements = 1;
  while (elements * 2 * element_bytes <= kLeafBytes) elements *= 2;
  return elements;
}

// The binary logarithm of a power of two.
constexpr std::uint32_t Log2(std::uint32_t x) { return x == 1 ? 0 : 1 + Log2(x / 2); }

}  // namespace warpfold::kernels
