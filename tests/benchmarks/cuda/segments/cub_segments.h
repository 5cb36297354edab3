// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The reductions of cub::DeviceSegmentedReduce with which segments are compared.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace warpfold::benchmarks {

// The two-phase call of CUB's API: without `temporary` it only returns how many bytes of it are needed.
// Reduces `segments` segments of `length` elements each; results, of up to 16 bytes each, are left at `out`,
// in device memory.
using CubSegmentFunction = cudaError_t (*)(void* temporary, std::size_t& temporary_bytes,
                                           const std::byte* data, std::int64_t segments, std::int64_t length,
                                           void* out, cudaStream_t stream);

// With an accumulator as wide as Warpfold's. Null if there is none.
CubSegmentFunction FindCubSegments(absl::string_view operator_name, absl::string_view dtype);

}  // namespace warpfold::benchmarks
