// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The last-block guard: how the blocks of one launch, or some of them, agree on who is the last.
#pragma once

#include "kernels/cuda/vocabulary.h"

namespace warpfold::kernels::cuda {

// Draws the next number, 0 to `last`; after `last` comes 0 again. Releases this thread's writes, and those
// that a barrier ordered before it; acquires what earlier draws have released.
__device__ __forceinline__ unsigned DrawTicket(unsigned* ticket, unsigned last) {
#if defined(WARPFOLD_SIMT)
  return AtomicIncAcquireRelease(ticket, last);
#else
  unsigned drawn;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(drawn)
               : "l"(ticket), "r"(last)
               : "memory");
  return drawn;
#endif
}

// Whether this block is the last of `blocks` to get here. What each of them wrote before is then visible to
// all threads of that block.
//
// The first barrier puts the writes of a block's threads before its ticket, the increment orders them among
// blocks, and the second barrier makes them visible to the last block's threads (PTX ISA, "Memory Consistency
// Model": "Release and Acquire Patterns", "Memory synchronization"). `inc` wraps the ticket to zero at the
// last block: it needs no memset and serves the stream's next launch.
__device__ inline bool IsLastOf(unsigned* ticket, unsigned blocks) {
  if (blocks == 1) {
    __syncthreads();
    return true;
  }
  WARPFOLD_SHARED(bool, is_last);
  __syncthreads();
  if (threadIdx.x == 0) is_last = DrawTicket(ticket, blocks - 1) == blocks - 1;
  __syncthreads();
  return is_last;
}

// Whether this block is the last of all blocks of the grid to get here.
__device__ inline bool IsLastBlock(unsigned* ticket) { return IsLastOf(ticket, gridDim.x); }

}  // namespace warpfold::kernels::cuda
