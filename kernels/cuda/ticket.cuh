// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The last-block guard: how the blocks of one launch agree on who is the last.
#pragma once

namespace warpfold::kernels::cuda {

// Whether this block is the last of the grid to get here. What every block wrote before is then visible
// to all threads of that block.
//
// The barrier orders the writes of a block's threads before its ticket, which releases them; the last
// ticket acquires those of all blocks before it (PTX ISA, memory consistency model: release patterns are
// cumulative over barriers). `inc` wraps the ticket to zero at the last block: it needs no memset and
// serves the stream's next launch.
__device__ inline bool IsLastBlock(unsigned* ticket) {
  if (gridDim.x == 1) {
    __syncthreads();
    return true;
  }
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned drawn;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(drawn)
                 : "l"(ticket), "r"(gridDim.x - 1)
                 : "memory");
    is_last = drawn == gridDim.x - 1;
  }
  __syncthreads();
  return is_last;
}

}  // namespace warpfold::kernels::cuda
