// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The ladder of the CUDA toolkit's sample `reduction`, reduce0 to reduce7, written plainly from its
// description: sums of int, a template over the rung, blocks of 256 threads that leave a partial each.
#pragma once

#include <cuda_runtime.h>

namespace warpfold::benchmarks::published {

inline constexpr unsigned kRungBlock = 256;

__device__ __forceinline__ int SumLanes(int sum) {
  for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(~0u, sum, s);
  return sum;
}

// How the sums of a block's threads become one, in thread 0: the part in which most rungs differ.
template <int kRung>
__device__ __forceinline__ int SumRung(int sum, int* cells) {
  const unsigned t = threadIdx.x;
  if constexpr (kRung == 7) {
    sum = SumLanes(sum);
    if (t % 32 == 0) cells[t / 32] = sum;
    __syncthreads();
    // In the sample only those lanes shuffle that have a cell, and read from others nevertheless.
    return t < 32 ? SumLanes(t < kRungBlock / 32 ? cells[t] : 0) : 0;
  }
  cells[t] = sum;
  __syncthreads();
  if constexpr (kRung == 0) {
#pragma unroll 1  // blockDim.x is not a constant in the published form
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
      if (t % (2 * s) == 0) cells[t] += cells[t + s];
      __syncthreads();
    }
  } else if constexpr (kRung == 1) {
#pragma unroll 1
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
      const unsigned left = 2 * s * t;
      if (left < blockDim.x) cells[left] += cells[left + s];
      __syncthreads();
    }
  } else if constexpr (kRung <= 3) {
#pragma unroll 1
    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
      if (t < s) cells[t] += cells[t + s];
      __syncthreads();
    }
  } else {
#pragma unroll
    for (unsigned s = kRungBlock / 2; s > 32; s /= 2) {
      if (t < s) cells[t] += cells[t + s];
      __syncthreads();
    }
    return t < 32 ? SumLanes(cells[t] + cells[t + 32]) : 0;
  }
  return cells[0];
}

// reduce0 to reduce7; reduce4 is reduce5 with a loop that is not unrolled, and is left out.
template <int kRung>
__global__ void __launch_bounds__(kRungBlock) Reduce(const int* in, unsigned count, int* out) {
  __shared__ int cells[kRungBlock];
  const unsigned t = threadIdx.x;
  int sum = 0;
  if constexpr (kRung <= 2) {
    const unsigned i = blockIdx.x * kRungBlock + t;
    sum = i < count ? in[i] : 0;
  } else if constexpr (kRung <= 5) {
    const unsigned i = blockIdx.x * (2 * kRungBlock) + t;
    sum = i < count ? in[i] : 0;
    if (i + kRungBlock < count) sum += in[i + kRungBlock];
  } else {
    const unsigned stride = 2 * kRungBlock * gridDim.x;
    for (unsigned i = blockIdx.x * (2 * kRungBlock) + t; i < count; i += stride) {
      sum += in[i];
      if (i + kRungBlock < count) sum += in[i + kRungBlock];
    }
  }
  sum = SumRung<kRung>(sum, cells);
  if (t == 0) out[blockIdx.x] = sum;
}

}  // namespace warpfold::benchmarks::published
