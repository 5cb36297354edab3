// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small ranges: one cluster of blocks, a leaf a warp. The states meet at the cluster's barrier, which is
// quicker than a ticket in global memory. One launch.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/fold.cuh"
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

// The states meet in the first block's shared memory. Never launched where there are no clusters
// (Workspace::has_clusters).
template <class Leaves>
__global__ void __launch_bounds__(Leaves::kThreads)
    ClusterKernel(OperatorParameters parameters, Range range, Workspace workspace) {
#if __CUDA_ARCH__ >= 900
  using Op = typename Leaves::Operation;
  using State = typename Op::State;
  const Op op = MakeOperator<Op>(parameters);
  __shared__ alignas(16) std::byte shared[kClusterLeaves<Leaves> * sizeof(State)];
  const auto cluster = cooperative_groups::this_cluster();
  auto* const states = cluster.map_shared_rank(reinterpret_cast<State*>(shared), 0);
  // The first block's shared memory is there once that block runs: this barrier, waited for below, says so.
  auto all_run = cluster.barrier_arrive();

  Leaves leaves(op, range);
  const std::uint32_t leaf = blockIdx.x * Leaves::kWarps + threadIdx.x / kLanes;
  State state{};
  if (leaf < range.leaf_count) state = leaves.FoldEdge(range.first_leaf + leaf);
  cluster.barrier_wait(std::move(all_run));
  if (leaf < range.leaf_count && threadIdx.x % kLanes == 0) states[leaf] = state;
  cluster.sync();
  if (blockIdx.x > 0) return;
  FoldLeaves<kClusterLeaves<Leaves>>(op, range, workspace, states);
#endif
}

template <class Leaves>
cudaError_t LaunchCluster(const OperatorParameters& parameters, const Range& range,
                          const Workspace& workspace, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((range.leaf_count + Leaves::kWarps - 1) / Leaves::kWarps);
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = Leaves::kThreads;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, ClusterKernel<Leaves>, parameters, range, workspace);
}

}  // namespace warpfold::kernels::cuda
