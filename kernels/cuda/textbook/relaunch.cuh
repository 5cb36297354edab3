// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How kernels that leave one partial per block become a whole reduction. When two launches follow each other
// on a stream, everything that the first wrote is visible to the second: the end of a launch is the only
// barrier over all blocks that needs no care.
//
// A kernel is called as kernel(parameters, Input<Op>, State* partials) and writes partials[blockIdx.x].
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/grid.cuh"
#include "kernels/cuda/textbook/input.cuh"
#include "kernels/cuda/textbook/launch.h"

namespace warpfold::kernels::cuda::textbook {

// Launches on the section with one block per `items_per_block`, then on the partials, until one is left.
template <Operator Op, auto kKernel>
cudaError_t RelaunchUntilOne(unsigned threads, std::uint64_t items_per_block,
                             const OperatorParameters& parameters, const Section& section,
                             const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  auto* partials = reinterpret_cast<State*>(workspace.partials);
  Input<Op> input(section);
  while (true) {
    const std::uint64_t blocks = (input.count() + items_per_block - 1) / items_per_block;
    State* const out = blocks == 1 ? reinterpret_cast<State*>(workspace.nodes) : partials;
    const cudaError_t error =
        LaunchKernel<kKernel>({static_cast<unsigned>(blocks), threads}, stream, parameters, input, out);
    if (error != cudaSuccess || blocks == 1) return error;
    input = Input<Op>(partials, blocks);
    // The next partials go after those of this level, not over them: blocks run in any order, and one that is
    // ahead must not overwrite what another has yet to read.
    partials += blocks;
  }
}

// Launches a fixed grid (grid.cuh) on the section, then one block on the partials.
template <Operator Op, auto kKernel>
cudaError_t LaunchTwice(unsigned threads, std::uint64_t items_per_block, const OperatorParameters& parameters,
                        const Section& section, const Workspace& workspace, cudaStream_t stream) {
  using State = typename Op::State;
  auto* const result = reinterpret_cast<State*>(workspace.nodes);
  auto* const partials = reinterpret_cast<State*>(workspace.partials);
  const Input<Op> elements(section);
  const unsigned blocks = FixedGrid(workspace, elements.count(), threads, items_per_block);
  const cudaError_t error =
      LaunchKernel<kKernel>({blocks, threads}, stream, parameters, elements, blocks == 1 ? result : partials);
  if (error != cudaSuccess || blocks == 1) return error;
  return LaunchKernel<kKernel>({1, threads}, stream, parameters, Input<Op>(partials, blocks), result);
}

}  // namespace warpfold::kernels::cuda::textbook
