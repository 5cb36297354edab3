// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_segmented_reduce.cuh>
#include <cuda/std/functional>
#include <limits>

#include "tests/benchmarks/cuda/segments/cub_segments.h"

namespace warpfold::benchmarks {
namespace {

struct Times {
  std::int64_t length;
  __host__ __device__ std::int64_t operator()(std::int64_t segment) const { return segment * length; }
};

template <class T, class Accumulator, class Op>
cudaError_t Reduce(void* temporary, std::size_t& temporary_bytes, const std::byte* data,
                   std::int64_t segments, std::int64_t length, void* out, Accumulator initial,
                   cudaStream_t stream) {
  const auto offsets =
      thrust::make_transform_iterator(thrust::make_counting_iterator(std::int64_t{0}), Times{length});
  return cub::DeviceSegmentedReduce::Reduce(temporary, temporary_bytes, reinterpret_cast<const T*>(data),
                                            static_cast<Accumulator*>(out), segments, offsets, offsets + 1,
                                            Op{}, initial, stream);
}

template <class T, class Accumulator>
cudaError_t Sum(void* temporary, std::size_t& temporary_bytes, const std::byte* data, std::int64_t segments,
                std::int64_t length, void* out, cudaStream_t stream) {
  return Reduce<T, Accumulator, cuda::std::plus<>>(temporary, temporary_bytes, data, segments, length, out,
                                                   Accumulator{0}, stream);
}

template <class T>
cudaError_t Max(void* temporary, std::size_t& temporary_bytes, const std::byte* data, std::int64_t segments,
                std::int64_t length, void* out, cudaStream_t stream) {
  return Reduce<T, T, cuda::maximum<>>(temporary, temporary_bytes, data, segments, length, out,
                                       std::numeric_limits<T>::lowest(), stream);
}

}  // namespace

CubSegmentFunction FindCubSegments(absl::string_view operator_name, absl::string_view dtype) {
  if (operator_name == "sum" && dtype == "float32") return Sum<float, double>;
  if (operator_name == "sum" && dtype == "int32") return Sum<std::int32_t, std::int64_t>;
  if (operator_name == "sum" && dtype == "float64") return Sum<double, double>;
  if (operator_name == "max" && dtype == "float32") return Max<float>;
  if (operator_name == "max" && dtype == "int32") return Max<std::int32_t>;
  return nullptr;
}

}  // namespace warpfold::benchmarks
