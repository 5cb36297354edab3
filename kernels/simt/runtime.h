// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA runtime that host code of kernels/cuda calls, for a simt::Device. Memory lives as long
// as its device.
#pragma once

#include <cstddef>

#include "kernels/simt/device.h"

namespace warpfold::kernels::simt {

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorLaunchFailure = 719 };
using cudaStream_t = Device*;  // each has one

// Until it is destroyed, the calls below, on this thread, are meant for `device`.
class UseDevice {
 public:
  explicit UseDevice(Device& device) { current_ = &device; }
  ~UseDevice() { current_ = nullptr; }
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

  static Device& Current() { return *current_; }

 private:
  static inline constinit thread_local Device* current_ = nullptr;
};

// Just enough multiprocessors for grids of several blocks.
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
inline constexpr int kMultiprocessors = 4;
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = kMultiprocessors;
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = UseDevice::Current().Allocate(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  UseDevice::Current().Set(static_cast<std::byte*>(memory), static_cast<std::byte>(value), bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void*) { return cudaSuccess; }

// Allocates memory of the host. No block reads it, so blocks have no views of it.
inline constexpr unsigned cudaHostAllocMapped = 2;
inline cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = UseDevice::Current().AllocateOfHost(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaHostGetDevicePointer(void** of_device, void* of_host, unsigned) {
  *of_device = of_host;
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void*) { return cudaSuccess; }

// A launch has ended when it returns.
inline constexpr cudaStream_t cudaStreamLegacy = nullptr;
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

}  // namespace warpfold::kernels::simt
