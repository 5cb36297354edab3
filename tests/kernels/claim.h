// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Partial states that somebody claims elements to have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/partial_state.h"

namespace warpfold::kernels {

// The result of the claim that the first `count` elements of a leaf have these states, which are node_bytes()
// long.
inline absl::Status ClaimOfOneLeaf(const ReductionPlan& reduction, std::uint64_t leaf, std::uint64_t count,
                                   std::span<const std::byte> states) {
  const std::size_t by_node = reduction.by_node_bytes();
  std::vector<NodePosition> nodes;
  if (by_node > 0) nodes.push_back({0, leaf});
  return PartialState::Create(reduction, leaf * reduction.leaf_elements(), count, nodes,
                              states.first(by_node), states.subspan(by_node))
      .status();
}

}  // namespace warpfold::kernels
