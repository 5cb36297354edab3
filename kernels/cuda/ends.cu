// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/ends.h"
#include "kernels/nodes.h"
#include "proto/leaf.h"

namespace warpfold::kernels::cuda {
namespace {

// Where the elements lie that are the nodes' states.
struct Ends {
  std::uint64_t offsets[kMaxStateNodes];  // bytes from the start of the range
};

// A thread for each node. An element is aligned to its size, but its size is no constant.
__global__ void __launch_bounds__(kMaxStateNodes)
    CopyEndsKernel(const __grid_constant__ Ends ends, std::uint32_t element_bytes, const std::byte* data,
                   Workspace workspace) {
  const std::byte* const element = data + ends.offsets[threadIdx.x];
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < element_bytes; ++i) bits |= static_cast<std::uint64_t>(element[i]) << (8 * i);
  auto* const state = reinterpret_cast<PresentState*>(workspace.nodes + threadIdx.x * workspace.node_stride);
  *state = {bits, 1};
}

}  // namespace

cudaError_t CopyEnds(std::size_t element_bytes, bool from_the_left, const Range& range,
                     const Workspace& workspace, cudaStream_t stream) {
  const std::uint64_t leaf_elements = LeafElements(element_bytes);
  Ends ends = {};
  unsigned nodes = 0;
  std::uint64_t begin = 0;
  for (const NodePosition node : MaximalSubtrees(range.first_leaf, range.leaf_count)) {
    const std::uint64_t end = std::min(begin + (leaf_elements << node.level), range.element_count);
    ends.offsets[nodes++] = (from_the_left ? begin : end - 1) * element_bytes;
    begin = end;
  }
  return LaunchKernel<CopyEndsKernel>({1, nodes}, stream, ends, static_cast<std::uint32_t>(element_bytes),
                                      range.data, workspace);
}

}  // namespace warpfold::kernels::cuda
