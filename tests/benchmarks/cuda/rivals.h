// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// CUB and Thrust as contenders. All memory that they need is allocated before anything is timed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/reduction.h"
#include "tests/benchmarks/rounds.h"

namespace warpfold::benchmarks {

class Rivals {
 public:
  explicit Rivals(cudaStream_t stream);
  ~Rivals();
  Rivals(const Rivals&) = delete;
  Rivals& operator=(const Rivals&) = delete;

  // "cub", whose value goes to mapped host memory as Warpfold's does, "cub_native", whose value stays in
  // device memory, and "thrust", as far as these exist for this reduction. For DeviceStopwatch. They use this
  // object's memory.
  std::vector<Contender> OnDevice(const kernels::ReductionPlan& reduction, std::size_t bytes);

  // For HostStopwatch: "cub" and "cub_native" copy the result to pinned memory; "cub_mapped" writes it to
  // mapped memory; "thrust" is the usual call; "thrust_scratch" is the call without its allocation.
  std::vector<Contender> FromHost(const kernels::ReductionPlan& reduction, std::size_t bytes);

  // The result of CUB's wide reduction. Nothing if there is none.
  std::optional<long double> Value(const kernels::ReductionPlan& reduction, const std::byte* data,
                                   std::size_t bytes);

 private:
  cudaStream_t stream_;
  std::byte* temporary_ = nullptr;
  std::byte* out_ = nullptr;     // device memory
  std::byte* pinned_ = nullptr;  // host memory
  std::byte* mapped_ = nullptr;  // the same host memory, as the device sees it
};

}  // namespace warpfold::benchmarks
