// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/stripes.h"

#include <algorithm>

namespace warpfold {

std::vector<Stripe> CutIntoStripes(std::uint64_t element_count, std::uint64_t element_bytes, int streams) {
  const std::uint64_t leaf = LeafElements(element_bytes);
  const std::uint64_t leaves = element_count / leaf + (element_count % leaf != 0 ? 1 : 0);
  const std::uint64_t stripes = std::clamp<std::uint64_t>(leaves, 1, static_cast<std::uint64_t>(streams));

  std::vector<Stripe> result;
  std::uint64_t first_leaf = 0;
  for (std::uint64_t i = 0; i < stripes; ++i) {
    const std::uint64_t leaf_count = leaves / stripes + (i < leaves % stripes ? 1 : 0);
    const std::uint64_t first = first_leaf * leaf;
    result.push_back({first, std::min(leaf_count * leaf, element_count - first)});
    first_leaf += leaf_count;
  }
  return result;
}

}  // namespace warpfold
