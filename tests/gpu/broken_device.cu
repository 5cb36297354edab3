// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "tests/gpu/broken_device.h"

namespace warpfold {
namespace {

__global__ void WriteTo(int* address) { *address = 1; }

__global__ void Spin(const volatile int* stop) {
  while (*stop == 0) continue;
}

void Must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::cerr << "cannot break the device: " << cudaGetErrorName(error) << std::endl;
  std::abort();
}

cudaStream_t StreamOfItsOwn() {
  cudaStream_t stream = nullptr;
  Must(cudaSetDevice(0));
  Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace

void WriteToAddressZero() {
  WriteTo<<<1, 1, 0, StreamOfItsOwn()>>>(nullptr);
  Must(cudaGetLastError());
}

void OccupyForEver() {
  const cudaStream_t stream = StreamOfItsOwn();
  int* stop = nullptr;
  Must(cudaMallocAsync(&stop, sizeof *stop, stream));
  Must(cudaMemsetAsync(stop, 0, sizeof *stop, stream));
  cudaDeviceProp device = {};
  Must(cudaGetDeviceProperties(&device, 0));
  constexpr int kThreads = 1024;
  const int blocks = device.multiProcessorCount * (device.maxThreadsPerMultiProcessor / kThreads);
  Spin<<<blocks, kThreads, 0, stream>>>(stop);
  Must(cudaGetLastError());
}

}  // namespace warpfold
