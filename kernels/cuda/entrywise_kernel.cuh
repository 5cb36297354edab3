// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Scalar operators on arrays of matrices, entry by entry: a thread takes one entry through one leaf, a block
// 16 leaves at a time through a unit. Neighbouring threads read neighbouring entries, so that loads coalesce.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/geometry.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {

inline constexpr std::uint32_t kEntrywiseThreads = 256;
// Leaves at a time, and entries whose states of them fit shared memory together.
inline constexpr std::uint32_t kEntrywiseLevel = 4;
inline constexpr std::uint32_t kEntrywiseLeaves = 1u << kEntrywiseLevel;
inline constexpr std::uint32_t kEntriesAtOnce = 64;
// Of a unit. States of units are folded by one block: there are to be few.
inline constexpr std::uint32_t kLargestEntrywiseLevel = kEntrywiseLevel + 8;
inline constexpr std::uint32_t kMostUnitStates = 32768;

// What a kernel needs to read entries of leaves.
template <ScalarOperator Op>
class EntryLeaves {
 public:
  using T = typename Op::Element;
  using State = typename Op::State;

  __device__ EntryLeaves(const Op& op, const Range& range, std::uint32_t leaf_elements)
      : op_(op), range_(range), leaf_elements_(leaf_elements) {}

  // Folds one entry of the leaf, in array order; the leaf may be short.
  __device__ __forceinline__ State Fold(std::uint64_t leaf, std::uint32_t entry) const {
    const std::uint64_t first = (leaf - range_.first_leaf) * leaf_elements_;
    const std::uint64_t rest = range_.element_count - first;
    const std::uint32_t count = rest < leaf_elements_ ? static_cast<std::uint32_t>(rest) : leaf_elements_;
    const T* const x = reinterpret_cast<const T*>(range_.data) + first * range_.entries + entry;
    auto state = op_.Lift(x[0], 0);
#pragma unroll 8
    for (std::uint32_t i = 1; i < count; ++i) state = op_.Combine(state, op_.Lift(x[i * range_.entries], i));
    return op_.Widen(state, leaf * leaf_elements_);
  }

 private:
  const Op op_;
  const Range range_;
  const std::uint32_t leaf_elements_;
};

// Folds the states of 16 leaves, `width` each, into those of the first. The block calls it.
template <ScalarOperator Op>
__device__ void FoldLeaves(const Op& op, std::uint32_t width, typename Op::State* states) {
  // Level by level; a thread keeps to its entry of its pair, whose left state it overwrites.
  for (std::uint32_t apart = 1; apart < kEntrywiseLeaves; apart *= 2) {
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < kEntrywiseLeaves / (2 * apart) * width; i += kEntrywiseThreads) {
      typename Op::State* const left = states + i / width * 2 * apart * width + i % width;
      *left = op.Combine(*left, left[apart * width]);
    }
  }
  __syncthreads();
}

template <ScalarOperator Op>
__global__ void __launch_bounds__(kEntrywiseThreads)
    EntrywiseKernel(OperatorParameters parameters, Range range, Geometry geometry,
                    std::uint32_t leaf_elements, Workspace workspace) {
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  const EntryLeaves<Op> leaves(op, range, leaf_elements);
  const std::uint32_t entries = range.entries;
  auto* const edges = reinterpret_cast<State*>(workspace.partials);
  auto* const units = edges + geometry.edge_leaves() * entries;

  if (blockIdx.x < geometry.unit_blocks) {
    __shared__ alignas(16) std::byte shared[kEntrywiseLeaves * kEntriesAtOnce * sizeof(State)];
    auto* const states = reinterpret_cast<State*>(shared);
    // Of this thread's entry, of 2^l times 16 leaves each: they wait for their right neighbours, as the
    // digits of a binary counter do.
    State waiting[kLargestEntrywiseLevel - kEntrywiseLevel + 1];
    const std::uint32_t times = 1u << (geometry.unit_level - kEntrywiseLevel);
    const std::uint32_t parts = (entries + kEntriesAtOnce - 1) / kEntriesAtOnce;
    for (std::uint64_t task = blockIdx.x; task < geometry.units * parts; task += geometry.unit_blocks) {
      const std::uint64_t unit = task / parts;
      const std::uint32_t first_entry = static_cast<std::uint32_t>(task % parts) * kEntriesAtOnce;
      const std::uint32_t width = min(entries - first_entry, kEntriesAtOnce);
      const std::uint64_t first_leaf = (geometry.first_unit + unit) << geometry.unit_level;
      for (std::uint32_t time = 0; time < times; ++time) {
        const std::uint64_t leaf = first_leaf + time * kEntrywiseLeaves;
        for (std::uint32_t i = threadIdx.x; i < kEntrywiseLeaves * width; i += kEntrywiseThreads) {
          states[i] = leaves.Fold(leaf + i / width, first_entry + i % width);
        }
        FoldLeaves(op, width, states);
        if (threadIdx.x < width) {
          State folded = states[threadIdx.x];
          std::uint32_t level = 0;
          for (; (time >> level & 1) != 0; ++level) folded = op.Combine(waiting[level], folded);
          if (time + 1 < times) {
            waiting[level] = folded;
          } else {
            units[unit * entries + first_entry + threadIdx.x] = folded;
          }
        }
        __syncthreads();  // before the next leaves' states overwrite these
      }
    }
  } else {
    const std::uint64_t i =
        std::uint64_t{blockIdx.x - geometry.unit_blocks} * kEntrywiseThreads + threadIdx.x;
    if (i < geometry.edge_leaves() * entries) {
      edges[i] = leaves.Fold(geometry.EdgeLeaf(range, i / entries), static_cast<std::uint32_t>(i % entries));
    }
  }
  if (IsLastBlock(workspace.tickets)) FoldPartials<NodeFolder<Op>>(op, range, geometry, workspace, entries);
}

template <ScalarOperator Op>
cudaError_t LaunchEntrywise(const OperatorParameters& parameters, const Range& range,
                            const Workspace& workspace, cudaStream_t stream) {
  constexpr std::uint64_t kBlocksPerMultiprocessor = 4;
  const std::uint64_t leaf_elements = LeafElements(range.entries * sizeof(typename Op::Element));
  const std::uint64_t resident = workspace.multiprocessors * kBlocksPerMultiprocessor;
  Geometry geometry = PlanUnits(range, leaf_elements, kEntrywiseLevel, kLargestEntrywiseLevel, resident,
                                std::min<std::uint64_t>(kMostUnits, kMostUnitStates / range.entries));
  // A unit is the work of as many blocks as its entries have parts.
  const std::uint64_t tasks = geometry.units * ((range.entries + kEntriesAtOnce - 1) / kEntriesAtOnce);
  if (tasks > 0) {
    const std::uint64_t rounds = (tasks + resident - 1) / resident;
    geometry.unit_blocks = static_cast<std::uint32_t>((tasks + rounds - 1) / rounds);
  }
  const std::uint64_t edge_threads = geometry.edge_leaves() * range.entries;
  const std::uint64_t blocks =
      geometry.unit_blocks + (edge_threads + kEntrywiseThreads - 1) / kEntrywiseThreads;
  EntrywiseKernel<Op><<<static_cast<unsigned>(blocks), kEntrywiseThreads, 0, stream>>>(
      parameters, range, geometry, static_cast<std::uint32_t>(leaf_elements), workspace);
  return cudaGetLastError();
}

}  // namespace warpfold::kernels::cuda
