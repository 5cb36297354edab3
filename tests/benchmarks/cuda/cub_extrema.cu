// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda/std/limits>

#include "tests/benchmarks/cuda/cub_calls.cuh"

namespace warpfold::benchmarks {
namespace {

// IEEE 754-2019 minimum and maximum. float32 has an instruction for them; float64 takes three comparisons.
template <bool kMax>
struct Extremum {
  __device__ float operator()(float a, float b) const {
    float result;
    if constexpr (kMax) {
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    } else {
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    }
    return result;
  }
  __device__ double operator()(double a, double b) const {
    const bool takes_a = kMax ? a > b || (a == b && !signbit(a)) : a < b || (a == b && signbit(a));
    return a != a || takes_a ? a : b;
  }
};

template <bool kMax>
struct Infinity {
  template <class A>
  static A Value() {
    return kMax ? -cuda::std::numeric_limits<A>::infinity() : cuda::std::numeric_limits<A>::infinity();
  }
};

template <class T, bool kMax>
cudaError_t Native(void* temporary, std::size_t& temporary_bytes, const std::byte* data, std::int64_t count,
                   void* out, cudaStream_t stream) {
  if constexpr (kMax) {
    return cub::DeviceReduce::Max(temporary, temporary_bytes, As<T>(data), static_cast<T*>(out), count,
                                  stream);
  } else {
    return cub::DeviceReduce::Min(temporary, temporary_bytes, As<T>(data), static_cast<T*>(out), count,
                                  stream);
  }
}

template <class T, bool kMax>
constexpr CubRow IntegerRow(const char* dtype) {
  return {kMax ? "max" : "min", dtype, Native<T, kMax>, Native<T, kMax>, CubValue<T>};
}

template <class T, bool kMax>
constexpr CubRow FloatRow(const char* dtype) {
  return {kMax ? "max" : "min", dtype, CubReduce<T, T, Extremum<kMax>, Infinity<kMax>>, Native<T, kMax>,
          CubValue<T>};
}

}  // namespace

std::span<const CubRow> CubExtrema() {
  static constexpr CubRow kRows[] = {
      IntegerRow<std::int8_t, false>("int8"),   IntegerRow<std::int8_t, true>("int8"),
      IntegerRow<std::int16_t, false>("int16"), IntegerRow<std::int16_t, true>("int16"),
      IntegerRow<std::int32_t, false>("int32"), IntegerRow<std::int32_t, true>("int32"),
      IntegerRow<std::int64_t, false>("int64"), IntegerRow<std::int64_t, true>("int64"),
      FloatRow<float, false>("float32"),        FloatRow<float, true>("float32"),
      FloatRow<double, false>("float64"),       FloatRow<double, true>("float64"),
  };
  return kRows;
}

}  // namespace warpfold::benchmarks
