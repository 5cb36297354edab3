// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies from global to shared memory that continue while the thread does something else (PTX ISA, cp.async).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpfold::kernels::cuda {

// Begins to copy kBytes, to and from addresses that are multiples of kBytes. GPUs before sm_80 wait for each
// copy: there the other functions have nothing to do.
template <int kBytes>
__device__ __forceinline__ void CopyAsync(void* shared, const void* global) {
#if __CUDA_ARCH__ < 800
  struct alignas(kBytes) Words {
    std::uint32_t words[kBytes / 4];
  };
  *static_cast<Words*>(shared) = *static_cast<const Words*>(global);
#else
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {  // bypasses the first-level cache: nothing is read twice
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global), "n"(kBytes)
                 : "memory");
  }
#endif
}

// Ends a batch of copies; it may be empty.
__device__ __forceinline__ void CommitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for this thread's copies except those of the last batch. The copies of other threads are complete
// after a barrier with them.
__device__ __forceinline__ void WaitForAllButLastCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}
__device__ __forceinline__ void WaitForAllCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace warpfold::kernels::cuda
