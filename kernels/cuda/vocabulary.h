// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// CUDA C++ as used by kernels that run on a GPU and on the host: nvcc's, or that of kernels/simt. These
// kernels declare shared memory with WARPFOLD_SHARED, and are launched with LaunchKernel or
// LaunchCooperatively.
#pragma once

#if defined(WARPFOLD_SIMT)
#include "kernels/simt/vocabulary.h"
#else
#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

// A variable of the block: WARPFOLD_SHARED(unsigned, drawn, [2]) is `unsigned drawn[2]`.
#define WARPFOLD_SHARED(Type, name, ...) __shared__ alignas(16) Type name __VA_ARGS__

#if defined(__CUDACC__)
namespace warpfold::kernels::cuda {

struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
};

template <auto kKernel, class... Arguments>
cudaError_t LaunchKernel(const LaunchShape& shape, cudaStream_t stream, const Arguments&... arguments) {
  // clang-format does not know launches in a .h.
  // clang-format off
  kKernel<<<shape.blocks, shape.threads, shape.shared_bytes, stream>>>(arguments...);
  // clang-format on
  return cudaGetLastError();
}

// Launches a kernel whose blocks are all on the device at once. The arguments have the types of the kernel's
// parameters.
template <auto kKernel, class... Parameters>
cudaError_t LaunchCooperatively(const LaunchShape& shape, cudaStream_t stream, Parameters... parameters) {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Parameters...)>);
  void* arguments[] = {&parameters...};
  return cudaLaunchCooperativeKernel(kKernel, dim3(shape.blocks), dim3(shape.threads), arguments,
                                     shape.shared_bytes, stream);
}

// How many blocks of `threads` threads one multiprocessor holds at once.
template <auto kKernel>
cudaError_t ResidentBlocks(int threads, int* blocks) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kKernel, threads, 0);
}

// The compiler may take for granted that this holds.
__device__ __forceinline__ void Assume(bool holds) { __builtin_assume(holds); }

}  // namespace warpfold::kernels::cuda
#endif
#endif
