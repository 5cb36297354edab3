// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/check.h"
#include "tests/benchmarks/cuda/stream_gate.h"

namespace warpfold::benchmarks {
namespace {

__device__ unsigned long long Nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void WaitForHost(volatile unsigned* state, unsigned opening) {
  constexpr unsigned long long kPatienceNs = 2'000'000'000;
  const unsigned long long begin = Nanoseconds();
  while (state[0] < opening) {
    if (Nanoseconds() - begin > kPatienceNs) {
      state[1] = 1;
      return;
    }
  }
}

}  // namespace

StreamGate::StreamGate() {
  void* host = nullptr;
  void* device = nullptr;
  Check(cudaHostAlloc(&host, 2 * sizeof(unsigned), cudaHostAllocMapped), "memory for the gate");
  Check(cudaHostGetDevicePointer(&device, host, 0), "memory for the gate");
  host_ = static_cast<volatile unsigned*>(host);
  device_ = static_cast<volatile unsigned*>(device);
  host_[0] = 0;
  host_[1] = 0;
}

StreamGate::~StreamGate() { cudaFreeHost(const_cast<unsigned*>(host_)); }

void StreamGate::Close(cudaStream_t stream) {
  ++closed_;
  WaitForHost<<<1, 1, 0, stream>>>(device_, closed_);
  Check(cudaGetLastError(), "close the gate");
}

void StreamGate::Open() { host_[0] = closed_; }

void StreamGate::CheckPassed() const {
  if (host_[1] != 0) Check(cudaErrorLaunchTimeout, "a contender waits for the stream, or takes seconds");
}

}  // namespace warpfold::benchmarks
