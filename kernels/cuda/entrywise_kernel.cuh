// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Scalar operators on arrays of matrices, entry by entry: a thread takes one entry through one leaf.
#pragma once

#include <cstdint>

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/geometry.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ticket.cuh"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {

inline constexpr unsigned kEntrywiseThreads = 256;

template <ScalarOperator Op>
__global__ void __launch_bounds__(kEntrywiseThreads)
    EntrywiseKernel(OperatorParameters parameters, Range range, Geometry geometry,
                    std::uint32_t leaf_elements, Workspace workspace) {
  using T = typename Op::Element;
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint64_t leaf = thread / range.entries;
  if (leaf < range.leaf_count) {
    const std::uint64_t rest = range.element_count - leaf * leaf_elements;
    const std::uint64_t count = rest < leaf_elements ? rest : leaf_elements;
    const T* const entry = reinterpret_cast<const T*>(range.data) + leaf * leaf_elements * range.entries +
                           thread % range.entries;
    auto state = op.Lift(entry[0], 0);
    for (std::uint32_t i = 1; i < count; ++i) {
      state = op.Combine(state, op.Lift(entry[std::uint64_t{i} * range.entries], i));
    }
    reinterpret_cast<State*>(workspace.partials)[thread] =
        op.Widen(state, (range.first_leaf + leaf) * leaf_elements);
  }
  if (IsLastBlock(workspace.ticket))
    FoldPartials<NodeFolder<Op>>(op, range, geometry, workspace, range.entries);
}

template <ScalarOperator Op>
cudaError_t LaunchEntrywise(const OperatorParameters& parameters, const Range& range,
                            const Workspace& workspace, cudaStream_t stream) {
  Geometry geometry;  // every leaf is an edge
  geometry.left_edge = range.leaf_count;
  const std::uint64_t threads = range.leaf_count * range.entries;
  const std::uint64_t leaf_elements = LeafElements(range.entries * sizeof(typename Op::Element));
  const std::uint64_t blocks = (threads + kEntrywiseThreads - 1) / kEntrywiseThreads;
  EntrywiseKernel<Op><<<static_cast<unsigned>(blocks), kEntrywiseThreads, 0, stream>>>(
      parameters, range, geometry, static_cast<std::uint32_t>(leaf_elements), workspace);
  return cudaGetLastError();
}

}  // namespace warpfold::kernels::cuda
