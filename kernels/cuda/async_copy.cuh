// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies from global to shared memory that go on while the thread does something else (PTX ISA, cp.async).
#pragma once

#include <cuda_runtime.h>

namespace warpfold::kernels::cuda {

// Begins to copy kBytes, to and from addresses that are multiples of it.
template <int kBytes>
__device__ __forceinline__ void CopyAsync(void* shared, const void* global) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {  // past the first-level cache: nothing is read twice
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global), "n"(kBytes)
                 : "memory");
  }
}

// Ends a batch of copies; it may be empty.
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for this thread's copies but for those of the last batch. What other threads copied is there after a
// barrier with them.
__device__ __forceinline__ void WaitForAllButLastCopies() {
  asm volatile("cp.async.wait_group 1;" ::: "memory");
}
__device__ __forceinline__ void WaitForAllCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace warpfold::kernels::cuda
