// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Warpfold's own contenders: one for each algorithm, by name. "auto" is the one that the service runs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/device_reducer.h"
#include "kernels/reduction.h"
#include "tests/benchmarks/rounds.h"

namespace warpfold::benchmarks {

// The names that --algorithms accepts.
const std::vector<std::string>& AlgorithmNames();

// Enqueues `reduction` over the first `bytes` of the data. Its key is the algorithm's name. The reducer must
// outlive it.
Contender Production(const std::string& algorithm, const kernels::ReductionPlan& reduction,
                     std::uint64_t bytes, kernels::cuda::DeviceReducer& reducer, cudaStream_t stream);

// The same, but waits until the value is there.
Contender ProductionFromHost(const std::string& algorithm, const kernels::ReductionPlan& reduction,
                             std::uint64_t bytes, kernels::cuda::DeviceReducer& reducer, cudaStream_t stream);

}  // namespace warpfold::benchmarks
