// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/stopwatches.h"

#include <algorithm>
#include <chrono>

#include "tests/benchmarks/cuda/check.h"

namespace warpfold::benchmarks {
namespace {

// 1 GiB, or 32 calls if that is less: 60 us of the smallest kernels there are, 250 us of the largest.
constexpr std::size_t kBatchBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxCalls = 32;

}  // namespace

DeviceStopwatch::DeviceStopwatch(std::size_t bytes, RandomPool& pool, cudaStream_t stream)
    : bytes_(bytes),
      calls_(static_cast<int>(std::clamp<std::size_t>(kBatchBytes / bytes, 1, kMaxCalls))),
      pool_(pool),
      stream_(stream) {
  Check(cudaEventCreate(&begin_), "event");
  Check(cudaEventCreate(&end_), "event");
}

DeviceStopwatch::~DeviceStopwatch() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

// Without the gate: the first call of a kernel loads it, which may wait for the device.
void DeviceStopwatch::WarmUp(const Contender& contender) {
  contender.call(pool_.Next(bytes_));
  Check(cudaStreamSynchronize(stream_), contender.key.c_str());
}

double DeviceStopwatch::TimeUs(const Contender& contender) {
  if (!contender.waits) gate_.Close(stream_);
  Check(cudaEventRecord(begin_, stream_), "event");
  for (int i = 0; i < calls_; ++i) contender.call(pool_.Next(bytes_));
  Check(cudaEventRecord(end_, stream_), "event");
  gate_.Open();
  Check(cudaEventSynchronize(end_), contender.key.c_str());
  gate_.CheckPassed();
  float ms = 0;
  Check(cudaEventElapsedTime(&ms, begin_, end_), "event");
  return static_cast<double>(ms) * 1e3 / calls_;
}

double HostStopwatch::TimeUs(const Contender& contender) {
  const std::byte* data = pool_.Next(bytes_);
  const auto begin = std::chrono::steady_clock::now();
  contender.call(data);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace warpfold::benchmarks
