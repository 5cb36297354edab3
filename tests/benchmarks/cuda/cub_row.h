// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The reductions of cub::DeviceReduce with which Warpfold is compared, by operator and element type.
//
// If the two differ there are two contenders: one whose accumulator is as wide as Warpfold's numeric contract
// requires, and CUB as it comes, with the accumulator that its authors chose.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"

namespace warpfold::benchmarks {

// The two-phase call of CUB's API: without `temporary` it only returns how many bytes of it are needed. The
// result is left at `out`, kCubOutBytes of device (or mapped host) memory.
using CubFunction = cudaError_t (*)(void* temporary, std::size_t& temporary_bytes, const std::byte* data,
                                    std::int64_t count, void* out, cudaStream_t stream);
inline constexpr std::size_t kCubOutBytes = 32;
// Where argmin and argmax leave the index.
inline constexpr std::size_t kCubIndexOffset = 16;

struct CubRow {
  absl::string_view operator_name;
  absl::string_view dtype;  // as ElementTypeName
  // Integers: sums in twice the bits; products exact or found to overflow. Floats: sums and products in
  // float64; min and max treat NaN and signed zeros according to IEEE 754-2019.
  CubFunction wide = nullptr;
  CubFunction native = nullptr;  // the same as `wide` if CUB's own contract is no weaker
  // The value that `wide` left in host memory: exact for every integer of 64 bits; for an overflow, infinity.
  long double (*value)(const void* out) = nullptr;
};

// Null if there is none.
const CubRow* FindCubRow(absl::string_view operator_name, absl::string_view dtype);

std::span<const CubRow> CubSums();
std::span<const CubRow> CubProducts();
std::span<const CubRow> CubExtrema();
std::span<const CubRow> CubBitwise();
std::span<const CubRow> CubArgExtrema();

}  // namespace warpfold::benchmarks
