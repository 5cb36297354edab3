// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How one array is split for several streams. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/leaf.h"

namespace warpfold {

// A contiguous range of the array, in elements.
struct Stripe {
  std::uint64_t first_element = 0;
  std::uint64_t element_count = 0;
  friend bool operator==(const Stripe&, const Stripe&) = default;
};

// At most `count` adjacent stripes of nearly equal size, none of them empty unless the array is: then there
// is one. All but the last have a multiple of `granule` leaves. `element_bytes`, `count` and `granule` must
// be positive.
std::vector<Stripe> CutIntoStripes(std::uint64_t element_count, std::uint64_t element_bytes,
                                   std::uint64_t count, std::uint64_t granule = 1);

// The shares that `streams` streams take one after another: equally many for each, 1 to 4 of at least 16 MiB
// so that a slow stream takes fewer, and more where one would exceed 64 MiB. There are no more of them than
// one Merge can fold, unless there are more streams than that.
std::vector<Stripe> CutIntoShares(std::uint64_t element_count, std::uint64_t element_bytes, int streams);

}  // namespace warpfold
