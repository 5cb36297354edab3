// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// CUB's entry points in the form of CubFunction.
#pragma once

#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

#include "tests/benchmarks/cuda/cub_row.h"

namespace warpfold::benchmarks {

template <class T>
const T* As(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}

template <class Accumulator>
long double CubValue(const void* out) {
  return static_cast<long double>(*static_cast<const Accumulator*>(out));
}

// Reduces elements of type T with type Accumulator, which is also the type of the result. Start: a struct
// whose Value<Accumulator>() is the initial value.
template <class T, class Accumulator, class Op, class Start>
cudaError_t CubReduce(void* temporary, std::size_t& temporary_bytes, const std::byte* data,
                      std::int64_t count, void* out, cudaStream_t stream) {
  return cub::DeviceReduce::Reduce(temporary, temporary_bytes, As<T>(data), static_cast<Accumulator*>(out),
                                   count, Op{}, Start::template Value<Accumulator>(), stream);
}

// Initial values.
struct Zero {
  template <class A>
  static A Value() {
    return A{0};
  }
};
struct One {
  template <class A>
  static A Value() {
    return A{1};
  }
};

}  // namespace warpfold::benchmarks
