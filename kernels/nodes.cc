// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nodes.h"

namespace warpfold::kernels {

std::vector<NodePosition> MaximalSubtrees(std::uint64_t first_leaf, std::uint64_t leaf_count) {
  std::vector<NodePosition> left;
  std::vector<NodePosition> right;
  // Level by level, nodes [begin, end) remain. One whose sibling is not among them is left at its level; the
  // others are replaced by their parents.
  std::uint64_t begin = first_leaf;
  std::uint64_t end = first_leaf + leaf_count;
  for (std::uint32_t level = 0; begin < end; ++level, begin /= 2, end /= 2) {
    if (begin % 2 == 1) left.push_back({level, begin++});
    if (begin < end && end % 2 == 1) right.push_back({level, --end});
  }
  left.insert(left.end(), right.rbegin(), right.rend());
  return left;
}

}  // namespace warpfold::kernels
