// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Leaves: the unit in which an array may be cut (docs/canonical-order.md). Server, kernels and clients share
// this. No abseil: device code includes it.
#pragma once

#include <cstdint>

namespace warpfold {

inline constexpr std::uint64_t kLeafBytes = 4096;
// An array ends at most this many bytes from its start, so that no index, offset or size of a subtree
// overflows 64 bits.
inline constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 62;
// The largest number of elements T in an array: 2^59 of 64 bits, 2^62 of 8.
template <class T>
inline constexpr std::uint64_t kMaxElements = kMaxArrayBytes / sizeof(T);

// Elements in one leaf: the largest power of two that fits kLeafBytes, and at least 1.
constexpr std::uint64_t LeafElements(std::uint64_t element_bytes) {
  std::uint64_t elements = 1;
  while (elements * 2 * element_bytes <= kLeafBytes) elements *= 2;
  return elements;
}

}  // namespace warpfold
