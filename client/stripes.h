// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How one array is cut for several streams. Internal.
#pragma once

#include <cstdint>
#include <vector>

namespace warpfold {

// A contiguous range of the array, in elements.
struct Stripe {
  std::uint64_t first_element = 0;
  std::uint64_t element_count = 0;
  friend bool operator==(const Stripe&, const Stripe&) = default;
};

// Elements in one leaf of the canonical order, as reduction.proto defines it: stripes start on leaves.
constexpr std::uint64_t LeafElements(std::uint64_t element_bytes) {
  std::uint64_t elements = 1;
  while (elements * 2 * element_bytes <= 4096) elements *= 2;
  return elements;
}

// At most `streams` adjacent stripes of nearly equal size, none of them empty unless the array is: then
// there is one. `element_bytes` and `streams` must be positive.
std::vector<Stripe> CutIntoStripes(std::uint64_t element_count, std::uint64_t element_bytes, int streams);

}  // namespace warpfold
