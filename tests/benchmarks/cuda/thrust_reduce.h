// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// thrust::reduce: the call that returns the value, and so waits for the device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace warpfold::benchmarks {

// The accumulator is as wide as CubRow::wide. `scratch`: device memory that is used instead of the memory
// that thrust::reduce would otherwise allocate and free in each call; null to let it do that.
using ThrustFunction = void (*)(const std::byte* data, std::int64_t count, void* scratch,
                                cudaStream_t stream);

// Null if there is none.
ThrustFunction FindThrust(absl::string_view operator_name, absl::string_view dtype);

}  // namespace warpfold::benchmarks
