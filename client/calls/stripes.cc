// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/stripes.h"

#include <algorithm>
#include <bit>

#include "proto/limits.h"

namespace warpfold {
namespace {

constexpr std::uint64_t kMinShareBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxShareBytes = std::uint64_t{64} << 20;
// Enough shares that a stream of half the speed of the others delays the array only a little.
constexpr std::uint64_t kSharesOfAStream = 4;
// With this many granules a share's state has few subtrees, and shares have nearly equal sizes.
constexpr std::uint64_t kGranulesOfAShare = 16;

std::uint64_t DivideUp(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

std::vector<Stripe> CutIntoStripes(std::uint64_t element_count, std::uint64_t element_bytes,
                                   std::uint64_t count, std::uint64_t granule) {
  const std::uint64_t unit = LeafElements(element_bytes) * granule;
  const std::uint64_t units = DivideUp(element_count, unit);
  const std::uint64_t stripes = std::clamp<std::uint64_t>(units, 1, count);

  std::vector<Stripe> result;
  std::uint64_t first_unit = 0;
  for (std::uint64_t i = 0; i < stripes; ++i) {
    const std::uint64_t unit_count = units / stripes + (i < units % stripes ? 1 : 0);
    const std::uint64_t first = first_unit * unit;
    result.push_back({first, std::min(unit_count * unit, element_count - first)});
    first_unit += unit_count;
  }
  return result;
}

std::vector<Stripe> CutIntoShares(std::uint64_t element_count, std::uint64_t element_bytes, int streams) {
  const auto workers = static_cast<std::uint64_t>(streams);
  const std::uint64_t stream_bytes = DivideUp(element_count * element_bytes, workers);
  std::uint64_t each = std::clamp<std::uint64_t>(stream_bytes / kMinShareBytes, 1, kSharesOfAStream);
  each = std::max(each, DivideUp(stream_bytes, kMaxShareBytes));
  each = std::min(each, std::max<std::uint64_t>(kMaxMergedStates / workers, 1));
  const std::uint64_t leaf = LeafElements(element_bytes);
  const std::uint64_t share_leaves = element_count / leaf / (workers * each);
  return CutIntoStripes(element_count, element_bytes, workers * each,
                        std::bit_floor(std::max<std::uint64_t>(share_leaves / kGranulesOfAShare, 1)));
}

}  // namespace warpfold
