// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of a reduction on the GPU, seen from the device and from the host. Both classes are stopwatches
// for Race. Every call gets its own piece of the pool.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "tests/benchmarks/cuda/random_pool.h"
#include "tests/benchmarks/cuda/stream_gate.h"
#include "tests/benchmarks/rounds.h"

namespace warpfold::benchmarks {

// Device time of one call out of a batch of calls that run back to back. The batch is so long that the two
// events around it (a microsecond or two) do not matter; it is the same for all contenders, and is complete
// in the stream before the first call begins. A contender that waits cannot be enqueued ahead: its figure
// includes the host's part.
class DeviceStopwatch {
 public:
  DeviceStopwatch(std::size_t bytes, RandomPool& pool, cudaStream_t stream);
  ~DeviceStopwatch();
  DeviceStopwatch(const DeviceStopwatch&) = delete;
  DeviceStopwatch& operator=(const DeviceStopwatch&) = delete;

  int calls_per_batch() const { return calls_; }
  void WarmUp(const Contender& contender);
  double TimeUs(const Contender& contender);

 private:
  const std::size_t bytes_;
  const int calls_;
  RandomPool& pool_;
  cudaStream_t stream_;
  StreamGate gate_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// Wall time of one call on an idle device, from before the call until the value is on the host. Accepts only
// contenders that wait.
class HostStopwatch {
 public:
  HostStopwatch(std::size_t bytes, RandomPool& pool) : bytes_(bytes), pool_(pool) {}

  void WarmUp(const Contender& contender) { TimeUs(contender); }
  double TimeUs(const Contender& contender);

 private:
  const std::size_t bytes_;
  RandomPool& pool_;
};

}  // namespace warpfold::benchmarks
