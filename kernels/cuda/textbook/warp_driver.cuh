// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Not an algorithm, but a driver that lets the algorithms of one warp (warp_shared, warp_shared_once,
// warp_shared_ordered, warp_shared_padded, warp_shuffle) reduce arrays of any length.
//
// Every warp of the grid owns one contiguous part of the section and goes through it 32 items at a time: the
// warp's algorithm folds the 32 into one, and that one is joined to what came before. Then the first warp
// folds the warps' results with the same algorithm. A second launch of one block does the same with the
// blocks' partials. Parts are in the order of warps and blocks, so the order is kept if the warp's algorithm
// keeps it.
#pragma once

#include <cstdint>

#include "kernels/cuda/textbook/block.cuh"
#include "kernels/cuda/textbook/relaunch.cuh"

namespace warpfold::kernels::cuda::textbook {

// Fold has kCells, the number of shared cells that a warp needs, and Fold(op, state, cells), which returns,
// in every lane, the states of the 32 lanes of the calling warp, folded. Cells beyond the lanes' own are
// padding, which the driver has set to the identity.
template <class Fold, Operator Op, int kThreads>
__global__ void __launch_bounds__(kThreads)
    WarpDriverKernel(OperatorParameters parameters, Input<Op> input, typename Op::State* partials) {
  using State = typename Op::State;
  constexpr int kWarps = kThreads / kLanes;
  const Op op = MakeOperator<Op>(parameters);
  const int warp = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  State* const results = SharedCells<State, kWarps>();
  State* cells = nullptr;
  if constexpr (Fold::kCells > 0) {
    cells = SharedCells<State, kWarps * Fold::kCells>() + warp * Fold::kCells;
    // No barrier follows: a fold has one between the writes of lanes and the reads of others.
    for (int cell = kLanes + lane; cell < Fold::kCells; cell += kLanes) cells[cell] = op.Identity();
  }

  // Whole warp-fulls for each warp, so that only the last one is padded. Indices are signed, as in
  // FoldStrided, because then the compiler counts the rounds of the loop.
  const auto count = static_cast<std::int64_t>(input.count());
  const std::int64_t warps = std::int64_t{gridDim.x} * kWarps;
  const std::int64_t fulls = (count + kLanes - 1) / kLanes;
  const std::int64_t part = (fulls + warps - 1) / warps * kLanes;
  const std::int64_t begin = (std::int64_t{blockIdx.x} * kWarps + warp) * part;
  const std::int64_t end = begin + part < count ? begin + part : count;
  State state = input.With([&](const auto& items) {
    State so_far = op.Identity();
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      so_far = op.Combine(so_far, Fold::Fold(op, items.At(op, i + lane), cells));
    }
    if (i >= end) return so_far;
    const State padded = i + lane < end ? items.At(op, i + lane) : op.Identity();
    return op.Combine(so_far, Fold::Fold(op, padded, cells));
  });

  if (lane == 0) results[warp] = state;
  // Without this barrier the first warp would read results that other warps have yet to write.
  __syncthreads();
  if (warp != 0) return;
  state = Fold::Fold(op, lane < kWarps ? results[lane] : op.Identity(), cells);
  if (lane == 0) partials[blockIdx.x] = state;
}

template <class Fold, Operator Op>
cudaError_t LaunchWarpDriver(const OperatorParameters& parameters, const Section& section,
                             const Workspace& workspace, cudaStream_t stream) {
  constexpr int kThreads = ThreadsFor<typename Op::State>(256);
  return LaunchTwice<Op, WarpDriverKernel<Fold, Op, kThreads>>(kThreads, kThreads, parameters, section,
                                                               workspace, stream);
}

}  // namespace warpfold::kernels::cuda::textbook
