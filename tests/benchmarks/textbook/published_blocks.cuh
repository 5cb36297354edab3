// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The published reductions of one block and of one grid, written plainly from their description: sums of int
// by blocks of 1,024 threads, with int indices. The textbook's kernels are measured against them, so they
// have what was published and what today's hardware needs to be right (fences, barriers), and no more.
// Strides are signed, as published, or constants: the compiler may then assume that an index does not
// overflow, so it counts the rounds of a loop before the first and unrolls it. They serve fewer than 2^31
// elements.
#pragma once

#include <cuda_runtime.h>

namespace warpfold::benchmarks::published {

inline constexpr int kBlock = 1024;

// The cells' sum, in cells[0], by halves.
__device__ inline void SumByHalves(int* cells) {
  const int t = threadIdx.x;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (t < half) cells[t] += cells[t + half];
    __syncthreads();
  }
}

// sumCommSingleBlock.
__global__ void __launch_bounds__(kBlock) SumCommSingleBlock(const int* in, int count, int* out) {
  __shared__ int cells[kBlock];
  int sum = 0;
  for (int i = threadIdx.x; i < count; i += kBlock) sum += in[i];
  cells[threadIdx.x] = sum;
  SumByHalves(cells);
  if (threadIdx.x == 0) *out = cells[0];
}

// sumCommMultiBlock: the first launch leaves a sum for each block, and the second one, which has one block,
// sums these.
__global__ void __launch_bounds__(kBlock) SumCommMultiBlock(const int* in, int count, int* out) {
  __shared__ int cells[kBlock];
  const int grid_size = kBlock * static_cast<int>(gridDim.x);
  int sum = 0;
  for (int i = threadIdx.x + blockIdx.x * kBlock; i < count; i += grid_size) sum += in[i];
  cells[threadIdx.x] = sum;
  SumByHalves(cells);
  if (threadIdx.x == 0) out[blockIdx.x] = cells[0];
}

// Whether this block is the last of the grid. `counter` is 0 before each launch.
__device__ inline bool IsLast(int* counter) {
  __shared__ bool is_last;
  __threadfence();
  if (threadIdx.x == 0) is_last = atomicAdd(counter, 1) == static_cast<int>(gridDim.x) - 1;
  __syncthreads();
  __threadfence();
  return is_last;
}

// sumCommMultiBlock with a last-block guard.
__global__ void __launch_bounds__(kBlock)
    SumCommLastBlock(const int* in, int count, int* partials, int* counter, int* out) {
  __shared__ int cells[kBlock];
  const int grid_size = kBlock * static_cast<int>(gridDim.x);
  int sum = 0;
  for (int i = threadIdx.x + blockIdx.x * kBlock; i < count; i += grid_size) sum += in[i];
  cells[threadIdx.x] = sum;
  SumByHalves(cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = cells[0];
  if (!IsLast(counter)) return;
  sum = 0;
  for (int i = threadIdx.x; i < static_cast<int>(gridDim.x); i += kBlock) sum += partials[i];
  cells[threadIdx.x] = sum;
  SumByHalves(cells);
  if (threadIdx.x == 0) *out = cells[0];
}

// `count` items in order, in cells[0]. `cells` are twice as many as threads.
__device__ inline void SumInOrder(const int* in, int count, int* cells) {
  const int t = threadIdx.x;
  cells[t] = t < count ? in[t] : 0;
  for (int next = kBlock; next < count; next += kBlock) {
    cells[kBlock + t] = next + t < count ? in[next + t] : 0;
    __syncthreads();
    const int pair = cells[2 * t] + cells[2 * t + 1];
    __syncthreads();
    cells[t] = pair;
  }
  __syncthreads();
  for (int stride = 1; stride < kBlock; stride *= 2) {
    const int left = 2 * stride * t;
    if (left + stride < kBlock) cells[left] += cells[left + stride];
    __syncthreads();
  }
}

// sumNoncommSingleBlock.
__global__ void __launch_bounds__(kBlock) SumNoncomm(const int* in, int count, int* out) {
  __shared__ int cells[2 * kBlock];
  SumInOrder(in, count, cells);
  if (threadIdx.x == 0) *out = cells[0];
}

// sumNoncommMultiBlock.
__global__ void __launch_bounds__(kBlock)
    SumNoncommLastBlock(const int* in, int count, int* partials, int* counter, int* out) {
  __shared__ int cells[2 * kBlock];
  const int part = count / gridDim.x;
  const int begin = part * blockIdx.x;
  SumInOrder(in + begin, blockIdx.x + 1 == gridDim.x ? count - begin : part, cells);
  if (threadIdx.x == 0) partials[blockIdx.x] = cells[0];
  if (!IsLast(counter)) return;
  SumInOrder(partials, gridDim.x, cells);
  if (threadIdx.x == 0) *out = cells[0];
}

// A warp's cells, summed in cells[0]: sumCommSingleWarp.
__device__ inline void SumWarp(int* cells, int lane) {
  __syncwarp();
  for (int half = 16; half > 0; half /= 2) {
    if (lane < half) cells[lane] += cells[lane + half];
    __syncwarp();
  }
}

// sumCommSingleBlockWithWarps.
__global__ void __launch_bounds__(kBlock) SumCommWithWarps(const int* in, int count, int* out) {
  __shared__ int cells[kBlock];
  const int lane = threadIdx.x % 32;
  int sum = 0;
  for (int i = threadIdx.x; i < count; i += kBlock) sum += in[i];
  cells[threadIdx.x] = sum;
  SumWarp(cells + threadIdx.x - lane, lane);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const int of_warp = cells[32 * lane];
  __syncwarp();
  cells[lane] = of_warp;
  SumWarp(cells, lane);
  if (lane == 0) *out = cells[0];
}

}  // namespace warpfold::benchmarks::published
