// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// first and last if every element counts: nothing is searched, and nothing reduced. The state of a node is
// the element at one of its ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/nodes.h"
#include "kernels/operators/present_element.h"
#include "kernels/operators/traits.h"
#include "proto/leaf.h"

namespace warpfold::kernels::cuda {

// The places of the elements that are the states of the range's maximal subtrees, in bytes from its start.
struct EndOffsets {
  std::uint64_t bytes[kMaxStateNodes] = {};
  unsigned nodes = 0;
};

inline EndOffsets OffsetsOfEnds(std::size_t element_bytes, bool from_the_left, const Range& range) {
  const std::uint64_t leaf_elements = LeafElements(element_bytes);
  EndOffsets offsets;
  std::uint64_t begin = 0;
  for (const NodePosition node : MaximalSubtrees(range.first_leaf, range.leaf_count)) {
    const std::uint64_t complete = begin + (leaf_elements << node.level);
    const std::uint64_t end = complete < range.element_count ? complete : range.element_count;
    offsets.bytes[offsets.nodes++] = (from_the_left ? begin : end - 1) * element_bytes;
    begin = end;
  }
  return offsets;
}

// Copies, for each maximal subtree of the range, its first or its last element, of `element_bytes` bytes (1
// to 8). States are PresentElement's. One kernel serves all types. Returns cudaGetLastError().
cudaError_t CopyEnds(std::size_t element_bytes, bool from_the_left, const Range& range,
                     const Workspace& workspace, cudaStream_t stream);

// The LaunchFunction of an EndOperator that skips no element.
template <EndOperator Op>
cudaError_t LaunchEnds(const OperatorParameters&, const Range& range, const Workspace& workspace,
                       cudaStream_t stream) {
  static_assert(!Op::kSkipsElements);
  static_assert(std::is_same_v<typename Op::State, PresentState>);
  return CopyEnds(sizeof(typename Op::Element), Op::kFromTheLeft, range, workspace, stream);
}

}  // namespace warpfold::kernels::cuda
