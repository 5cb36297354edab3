// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/cub_calls.cuh"

namespace warpfold::benchmarks {
namespace {

template <class T, bool kMax>
cudaError_t ArgExtremum(void* temporary, std::size_t& temporary_bytes, const std::byte* data,
                        std::int64_t count, void* out, cudaStream_t stream) {
  auto* const value = static_cast<T*>(out);
  auto* const index = reinterpret_cast<std::int64_t*>(static_cast<std::byte*>(out) + kCubIndexOffset);
  if constexpr (kMax) {
    return cub::DeviceReduce::ArgMax(temporary, temporary_bytes, As<T>(data), value, index, count, stream);
  } else {
    return cub::DeviceReduce::ArgMin(temporary, temporary_bytes, As<T>(data), value, index, count, stream);
  }
}

template <class T, bool kMax>
constexpr CubRow Row(const char* dtype) {
  return {kMax ? "argmax" : "argmin", dtype, ArgExtremum<T, kMax>, ArgExtremum<T, kMax>, CubValue<T>};
}

}  // namespace

std::span<const CubRow> CubArgExtrema() {
  static constexpr CubRow kRows[] = {
      Row<std::int32_t, false>("int32"), Row<std::int32_t, true>("int32"), Row<std::int64_t, false>("int64"),
      Row<std::int64_t, true>("int64"),  Row<float, false>("float32"),     Row<float, true>("float32"),
      Row<double, false>("float64"),     Row<double, true>("float64"),
  };
  return kRows;
}

}  // namespace warpfold::benchmarks
