// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/benchmarks/cuda/cub_calls.cuh"

namespace warpfold::benchmarks {
namespace {

// A product of integers according to Warpfold's contract: exact or known to be too large, and 0 if an element
// is.
struct Exact {
  std::uint64_t magnitude;  // modulo 2^64
  std::uint32_t negative;
  std::uint32_t overflow;
};

struct ToExact {
  template <class T>
  __device__ Exact operator()(T x) const {
    const std::int64_t value = x;
    const auto bits = static_cast<std::uint64_t>(value);
    return {value < 0 ? 0 - bits : bits, value < 0, 0};
  }
};

struct MultiplyExact {
  __device__ Exact operator()(const Exact& a, const Exact& b) const {
    const std::uint32_t not_zero =
        (a.magnitude != 0 || a.overflow != 0) && (b.magnitude != 0 || b.overflow != 0);
    const std::uint32_t carried = __umul64hi(a.magnitude, b.magnitude) != 0;
    return {a.magnitude * b.magnitude, (a.negative ^ b.negative) & not_zero,
            (a.overflow | b.overflow | carried) & not_zero};
  }
};

template <class T>
cudaError_t ExactProduct(void* temporary, std::size_t& temporary_bytes, const std::byte* data,
                         std::int64_t count, void* out, cudaStream_t stream) {
  return cub::DeviceReduce::TransformReduce(temporary, temporary_bytes, As<T>(data), static_cast<Exact*>(out),
                                            count, MultiplyExact{}, ToExact{}, Exact{1, 0, 0}, stream);
}

// Infinite if an int64 cannot hold it.
long double ExactValue(const void* out) {
  const auto& product = *static_cast<const Exact*>(out);
  const std::uint64_t largest = (std::uint64_t{1} << 63) - (product.negative == 0);
  if (product.overflow != 0 || product.magnitude > largest) {
    return std::numeric_limits<long double>::infinity();
  }
  const auto magnitude = static_cast<long double>(product.magnitude);
  return product.negative != 0 ? -magnitude : magnitude;
}

template <class T>
constexpr CubRow IntegerRow(const char* dtype) {
  return {"product", dtype, ExactProduct<T>, CubReduce<T, T, cuda::std::multiplies<>, One>, ExactValue};
}

template <class T>
constexpr CubRow FloatRow(const char* dtype) {
  return {"product", dtype, CubReduce<T, double, cuda::std::multiplies<>, One>,
          CubReduce<T, T, cuda::std::multiplies<>, One>, CubValue<double>};
}

}  // namespace

std::span<const CubRow> CubProducts() {
  static constexpr CubRow kRows[] = {
      IntegerRow<std::int32_t>("int32"),
      IntegerRow<std::int64_t>("int64"),
      FloatRow<float>("float32"),
      FloatRow<double>("float64"),
  };
  return kRows;
}

}  // namespace warpfold::benchmarks
