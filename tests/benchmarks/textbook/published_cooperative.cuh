// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of the CUDA toolkit's sample `reductionMultiBlockCG`, written plainly from its description: one
// cooperative launch, with a barrier over the grid between the blocks' partials and their sum. It sums ints
// in int, while the sample sums floats in double. As there, the first thread of a block adds up the sums of
// its warps, and the first thread of the grid adds up those of the blocks.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

#include "tests/benchmarks/textbook/published_blocks.cuh"

namespace warpfold::benchmarks::published {

// reduceSinglePassMultiBlockCG. All blocks have to be on the device at once. Strides are signed, as in the
// other published forms, and sums are in registers. The sample strides by 64 bits over an index of 32 and
// adds up in memory, in shared memory and then in its array of partials: there nvcc has 4 loads in flight and
// here 16 (seen in the machine code), so this form is the faster rival.
__global__ void __launch_bounds__(kBlock)
    ReduceSinglePassMultiBlockCg(const int* in, int count, int* partials, int* out) {
  namespace cg = cooperative_groups;
  __shared__ int cells[kBlock];
  const int t = threadIdx.x;
  const int grid_size = kBlock * static_cast<int>(gridDim.x);
  int sum = 0;
  for (int i = t + blockIdx.x * kBlock; i < count; i += grid_size) sum += in[i];

  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cells[t] = cg::reduce(warp, sum, cg::plus<int>());
  __syncthreads();
  if (t == 0) {
    sum = 0;
    for (int first = 0; first < kBlock; first += 32) sum += cells[first];
    partials[blockIdx.x] = sum;
  }

  cg::this_grid().sync();
  if (blockIdx.x != 0 || t != 0) return;
  sum = 0;
  for (int block = 0; block < static_cast<int>(gridDim.x); ++block) sum += partials[block];
  *out = sum;
}

}  // namespace warpfold::benchmarks::published
