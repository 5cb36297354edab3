// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The last-block guard: how the blocks of one launch, or some of its warps, agree on who is the last.
#pragma once

namespace warpfold::kernels::cuda {

// Draws a ticket: whether it is the last one of `tickets`. Releases what this thread, and those that it has
// met at a barrier, wrote before; the last ticket acquires what was released with all others (PTX ISA, memory
// consistency model: release patterns are cumulative over barriers). `inc` wraps to zero at the last one: the
// ticket needs no memset and serves the stream's next launch.
__device__ inline bool DrawsLastTicket(unsigned* ticket, unsigned tickets) {
  unsigned drawn;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(drawn)
               : "l"(ticket), "r"(tickets - 1)
               : "memory");
  return drawn == tickets - 1;
}

// Whether this block is the last of the grid to get here. What every block wrote before is then visible
// to all threads of that block.
__device__ inline bool IsLastBlock(unsigned* ticket) {
  if (gridDim.x == 1) {
    __syncthreads();
    return true;
  }
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = DrawsLastTicket(ticket, gridDim.x);
  __syncthreads();
  return is_last;
}

// The same for the last of `tickets` warps.
__device__ inline bool IsLastWarp(unsigned* ticket, unsigned tickets) {
  bool is_last = false;
  __syncwarp();
  if (threadIdx.x % 32 == 0) is_last = DrawsLastTicket(ticket, tickets);
  __syncwarp();
  return __shfl_sync(0xffffffffu, is_last, 0) != 0;
}

}  // namespace warpfold::kernels::cuda
