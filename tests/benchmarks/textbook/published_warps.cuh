// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The published reductions of one warp, written plainly from their description, and the kernel that runs
// them.
//
// They reduce exactly 32 ints. So the loop around them is not published: it is laid out like the textbook's
// (warp_driver.cuh), with the same grid, the same parts and a fold of every 32 elements, so that the only
// difference is the fold. Indices are int, as in the other published forms.
//
// Each fold is called by a whole warp with a value in each lane and with kWarpCells cells that belong to the
// warp, and returns the sum in every lane. The published ones have volatile cells where these have
// __syncwarp(), and the last has shuffles without a mask. They serve at most 2^30 elements.
#pragma once

#include <cuda_runtime.h>

#include "tests/benchmarks/textbook/published_blocks.cuh"

namespace warpfold::benchmarks::published {

inline constexpr int kWarpBlock = 256;
inline constexpr int kWarpPadding = 16;
inline constexpr int kWarpCells = 32 + kWarpPadding;

using WarpFold = int (*)(int value, int* cells);

// The sum that a fold has left in the first cell. After it the cells may be written again.
__device__ inline int FirstCell(const int* cells) {
  const int sum = cells[0];
  __syncwarp();
  return sum;
}

// sumCommSingleWarp, conditional.
__device__ inline int SumCommSingleWarp(int value, int* cells) {
  const int lane = threadIdx.x % 32;
  cells[lane] = value;
  SumWarp(cells, lane);
  return FirstCell(cells);
}

// sumCommSingleWarp, once-conditional. Lanes beyond the step write cells that others read in that step, so
// all have to read before any writes.
__device__ inline int SumCommSingleWarpOnce(int value, int* cells) {
  constexpr unsigned kLowerHalf = 0xffff;
  const int lane = threadIdx.x % 32;
  cells[lane] = value;
  __syncwarp();
  if (lane < 16) {
    for (int half = 16; half > 0; half /= 2) {
      const int sum = cells[lane] + cells[lane + half];
      __syncwarp(kLowerHalf);
      cells[lane] = sum;
      __syncwarp(kLowerHalf);
    }
  }
  __syncwarp();
  return FirstCell(cells);
}

// sumNoncommSingleWarp.
__device__ inline int SumNoncommSingleWarp(int value, int* cells) {
  const int lane = threadIdx.x % 32;
  cells[lane] = value;
  __syncwarp();
  for (int stride = 1; stride < 32; stride *= 2) {
    if (lane % (2 * stride) == 0) cells[lane] += cells[lane + stride];
    __syncwarp();
  }
  return FirstCell(cells);
}

// sumNoncommSingleWarpPadded: the padding cells are 0, and nobody writes them. All have to read before any
// writes, as in the once-conditional form.
__device__ inline int SumNoncommSingleWarpPadded(int value, int* cells) {
  const int lane = threadIdx.x % 32;
  cells[lane] = value;
  __syncwarp();
  for (int stride = 1; stride < 32; stride *= 2) {
    const int sum = cells[lane] + cells[lane + stride];
    __syncwarp();
    cells[lane] = sum;
    __syncwarp();
  }
  return FirstCell(cells);
}

// sumSingleWarpReg.
__device__ inline int SumSingleWarpReg(int value, int*) {
  for (int stride = 1; stride < 32; stride *= 2) value += __shfl_down_sync(~0u, value, stride);
  return __shfl_sync(~0u, value, 0);
}

// Leaves a sum for each block. Every warp goes through a part of the elements, 32 at a time, and the first
// warp folds the sums of all. A second launch, which has one block, sums those of the blocks.
template <WarpFold kFold>
__global__ void __launch_bounds__(kWarpBlock) SumByWarps(const int* in, int count, int* out) {
  constexpr int kWarps = kWarpBlock / 32;
  __shared__ int cells_of_warps[kWarps][kWarpCells];
  __shared__ int sums[kWarps];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  int* const cells = cells_of_warps[warp];
  if (lane < kWarpPadding) cells[32 + lane] = 0;

  const int warps = kWarps * static_cast<int>(gridDim.x);
  const int part = ((count + 31) / 32 + warps - 1) / warps * 32;
  const int begin = (kWarps * static_cast<int>(blockIdx.x) + warp) * part;
  const int end = begin + part < count ? begin + part : count;
  int sum = 0;
  int i = begin;
  for (; i + 32 <= end; i += 32) sum += kFold(in[i + lane], cells);
  if (i < end) sum += kFold(i + lane < end ? in[i + lane] : 0, cells);

  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = kFold(lane < kWarps ? sums[lane] : 0, cells);
  if (lane == 0) out[blockIdx.x] = sum;
}

}  // namespace warpfold::benchmarks::published
