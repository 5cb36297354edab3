// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>

#include <cuda/std/functional>

#include "tests/benchmarks/cuda/thrust_reduce.h"

namespace warpfold::benchmarks {
namespace {

// An allocator with the interface that Thrust expects. It always returns the same memory, because
// thrust::reduce has only one allocation at a time.
struct OnePiece {
  using value_type = char;
  char* piece;
  char* allocate(std::ptrdiff_t) { return piece; }
  void deallocate(char*, std::size_t) {}
};

template <class T, class Accumulator, class Op>
void Reduce(const std::byte* data, std::int64_t count, void* scratch, cudaStream_t stream) {
  const auto begin = thrust::device_pointer_cast(reinterpret_cast<const T*>(data));
  // The same initial value for all operators, although it is the identity of only some of them: the benchmark
  // measures the time, and nobody reads the value. `volatile` keeps the compiler from omitting the call.
  const Accumulator start = 0;
  volatile Accumulator value;
  if (scratch == nullptr) {
    value = thrust::reduce(thrust::cuda::par.on(stream), begin, begin + count, start, Op{});
  } else {
    OnePiece allocator{static_cast<char*>(scratch)};
    value = thrust::reduce(thrust::cuda::par(allocator).on(stream), begin, begin + count, start, Op{});
  }
  static_cast<void>(value);
}

struct Row {
  absl::string_view operator_name;
  absl::string_view dtype;
  ThrustFunction function;
};

using Plus = cuda::std::plus<>;
using Times = cuda::std::multiplies<>;

constexpr Row kRows[] = {
    {"sum", "int32", Reduce<std::int32_t, std::int64_t, Plus>},
    {"sum", "int64", Reduce<std::int64_t, std::int64_t, Plus>},
    {"sum", "float32", Reduce<float, double, Plus>},
    {"sum", "float64", Reduce<double, double, Plus>},
    {"product", "int32", Reduce<std::int32_t, std::int64_t, Times>},
    {"product", "int64", Reduce<std::int64_t, std::int64_t, Times>},
    {"product", "float32", Reduce<float, double, Times>},
    {"product", "float64", Reduce<double, double, Times>},
    {"min", "int32", Reduce<std::int32_t, std::int32_t, cuda::minimum<>>},
    {"min", "int64", Reduce<std::int64_t, std::int64_t, cuda::minimum<>>},
    {"max", "int32", Reduce<std::int32_t, std::int32_t, cuda::maximum<>>},
    {"max", "int64", Reduce<std::int64_t, std::int64_t, cuda::maximum<>>},
    {"bit_xor", "int32", Reduce<std::int32_t, std::int32_t, cuda::std::bit_xor<>>},
    {"bit_xor", "int64", Reduce<std::int64_t, std::int64_t, cuda::std::bit_xor<>>},
};

}  // namespace

ThrustFunction FindThrust(absl::string_view operator_name, absl::string_view dtype) {
  for (const Row& row : kRows) {
    if (row.operator_name == operator_name && row.dtype == dtype) return row.function;
  }
  return nullptr;
}

}  // namespace warpfold::benchmarks
