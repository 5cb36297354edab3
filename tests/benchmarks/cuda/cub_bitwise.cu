// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/cuda/cub_calls.cuh"

namespace warpfold::benchmarks {
namespace {

struct AllOnes {
  template <class A>
  static A Value() {
    return static_cast<A>(~A{0});
  }
};

template <class T, class Op, class Start>
constexpr CubRow Row(const char* operator_name, const char* dtype) {
  return {operator_name, dtype, CubReduce<T, T, Op, Start>, CubReduce<T, T, Op, Start>, CubValue<T>};
}

}  // namespace

std::span<const CubRow> CubBitwise() {
  static constexpr CubRow kRows[] = {
      Row<std::int32_t, cuda::std::bit_and<>, AllOnes>("bit_and", "int32"),
      Row<std::int64_t, cuda::std::bit_and<>, AllOnes>("bit_and", "int64"),
      Row<std::int32_t, cuda::std::bit_or<>, Zero>("bit_or", "int32"),
      Row<std::int64_t, cuda::std::bit_or<>, Zero>("bit_or", "int64"),
      Row<std::int32_t, cuda::std::bit_xor<>, Zero>("bit_xor", "int32"),
      Row<std::int64_t, cuda::std::bit_xor<>, Zero>("bit_xor", "int64"),
  };
  return kRows;
}

}  // namespace warpfold::benchmarks
