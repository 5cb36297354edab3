// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small ranges: one block, or one cluster of blocks, a leaf a warp. The states meet in the first block's
// shared memory and at the cluster's barrier, which is quicker than a ticket in global memory. One launch.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/geometry.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/geometry.h"

namespace warpfold::kernels::cuda {

// As many blocks as every GPU with clusters takes in one (CUDA C++ Programming Guide, thread block clusters).
inline constexpr std::uint32_t kClusterBlocks = 8;

// Leaves of a range that is small.
template <class Leaves>
inline constexpr std::uint32_t kClusterLeaves = kClusterBlocks* Leaves::kWarps;
// Wide states would fill the shared memory: their ranges go to the grid.
template <class Leaves>
inline constexpr bool kServesClusters = kClusterLeaves<Leaves> * sizeof(typename Leaves::Operation::State) <=
                                        16384;

template <class Leaves>
__global__ void __launch_bounds__(Leaves::kThreads)
    ClusterKernel(OperatorParameters parameters, Range range, Geometry geometry, Workspace workspace) {
  using Op = typename Leaves::Operation;
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  __shared__ alignas(16) std::byte shared[kClusterLeaves<Leaves> * sizeof(State)];
  auto* states = reinterpret_cast<State*>(shared);
#if __CUDA_ARCH__ >= 900
  const auto cluster = cooperative_groups::this_cluster();
  states = cluster.map_shared_rank(states, 0);
  // The first block's shared memory is there once that block runs: this barrier, waited for below, says so.
  auto all_run = cluster.barrier_arrive();
#endif

  Leaves leaves(op, range);
  const std::uint32_t leaf = blockIdx.x * Leaves::kWarps + threadIdx.x / kLanes;
  State state{};
  if (leaf < range.leaf_count) state = leaves.FoldEdge(range.first_leaf + leaf);
#if __CUDA_ARCH__ >= 900
  cluster.barrier_wait(std::move(all_run));
#endif
  if (leaf < range.leaf_count && threadIdx.x % kLanes == 0) states[leaf] = state;
#if __CUDA_ARCH__ >= 900
  cluster.sync();
#else
  __syncthreads();
#endif
  if (blockIdx.x > 0) return;
  workspace.partials = shared;
  FoldPartials<NodeFolderFor<Op>>(op, range, geometry, workspace);
}

template <class Leaves>
cudaError_t LaunchCluster(const OperatorParameters& parameters, const Range& range,
                          const Workspace& workspace, cudaStream_t stream) {
  Geometry geometry;
  geometry.left_edge = range.leaf_count;
  const auto blocks = static_cast<unsigned>((range.leaf_count + Leaves::kWarps - 1) / Leaves::kWarps);
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = Leaves::kThreads;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = blocks > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, ClusterKernel<Leaves>, parameters, range, geometry, workspace);
}

}  // namespace warpfold::kernels::cuda
