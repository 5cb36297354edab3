// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/cub_calls.cuh"

namespace warpfold::benchmarks {
namespace {

template <class T, class Accumulator>
constexpr CubRow Row(const char* dtype) {
  return {"product", dtype, CubReduce<T, Accumulator, cuda::std::multiplies<>, One>,
          CubReduce<T, T, cuda::std::multiplies<>, One>, CubValue<Accumulator>};
}

}  // namespace

std::span<const CubRow> CubProducts() {
  static constexpr CubRow kRows[] = {
      Row<std::int32_t, std::int64_t>("int32"),
      Row<std::int64_t, std::int64_t>("int64"),
      Row<float, double>("float32"),
      Row<double, double>("float64"),
  };
  return kRows;
}

}  // namespace warpfold::benchmarks
