// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/ends.h"

namespace warpfold::kernels::cuda {
namespace {

// There is a thread for each node. An element is aligned to its size, but its size is not a constant.
__global__ void __launch_bounds__(kMaxStateNodes)
    CopyEndsKernel(const __grid_constant__ EndOffsets offsets, std::uint32_t element_bytes,
                   const std::byte* data, Workspace workspace) {
  const std::byte* const element = data + offsets.bytes[threadIdx.x];
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < element_bytes; ++i) bits |= static_cast<std::uint64_t>(element[i]) << (8 * i);
  auto* const state = reinterpret_cast<PresentState*>(workspace.nodes + threadIdx.x * workspace.node_stride);
  *state = {bits, 1};
}

}  // namespace

cudaError_t CopyEnds(std::size_t element_bytes, bool from_the_left, const Range& range,
                     const Workspace& workspace, cudaStream_t stream) {
  const EndOffsets offsets = OffsetsOfEnds(element_bytes, from_the_left, range);
  return LaunchKernel<CopyEndsKernel>({1, offsets.nodes}, stream, offsets,
                                      static_cast<std::uint32_t>(element_bytes), range.data, workspace);
}

}  // namespace warpfold::kernels::cuda
