// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/benchmarks/cuda/cub_calls.cuh"

namespace warpfold::benchmarks {
namespace {

template <class T>
cudaError_t NativeSum(void* temporary, std::size_t& temporary_bytes, const std::byte* data,
                      std::int64_t count, void* out, cudaStream_t stream) {
  return cub::DeviceReduce::Sum(temporary, temporary_bytes, As<T>(data), static_cast<T*>(out), count, stream);
}

// The sum of elements of 16 bits: CUB has a wider accumulator for them only if each element is converted.
template <class T, class Accumulator>
cudaError_t ConvertedSum(void* temporary, std::size_t& temporary_bytes, const std::byte* data,
                         std::int64_t count, void* out, cudaStream_t stream) {
  return cub::DeviceReduce::TransformReduce(
      temporary, temporary_bytes, As<T>(data), static_cast<Accumulator*>(out), count, cuda::std::plus<>{},
      [] __host__ __device__(T x) { return static_cast<Accumulator>(static_cast<float>(x)); }, Accumulator{0},
      stream);
}

template <class T, class Accumulator>
constexpr CubRow Row(const char* dtype) {
  return {"sum", dtype, CubReduce<T, Accumulator, cuda::std::plus<>, Zero>, NativeSum<T>,
          CubValue<Accumulator>};
}

}  // namespace

std::span<const CubRow> CubSums() {
  static constexpr CubRow kRows[] = {
      Row<std::int8_t, std::int64_t>("int8"),
      Row<std::uint8_t, std::uint64_t>("uint8"),
      Row<std::int16_t, std::int64_t>("int16"),
      Row<std::uint16_t, std::uint64_t>("uint16"),
      Row<std::int32_t, std::int64_t>("int32"),
      Row<std::uint32_t, std::uint64_t>("uint32"),
      Row<std::int64_t, __int128>("int64"),
      Row<std::uint64_t, unsigned __int128>("uint64"),
      {"sum", "float16", ConvertedSum<__half, double>, ConvertedSum<__half, float>, CubValue<double>},
      {"sum", "bfloat16", ConvertedSum<__nv_bfloat16, double>, ConvertedSum<__nv_bfloat16, float>,
       CubValue<double>},
      Row<float, double>("float32"),
      {"sum", "float64", NativeSum<double>, NativeSum<double>, CubValue<double>},
  };
  return kRows;
}

}  // namespace warpfold::benchmarks
