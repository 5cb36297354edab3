// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The Euclidean norm, a double: the square root of the sum of squares, which is exact for integers.
#pragma once

#include <cmath>

#include "kernels/operators/sum_of_squares.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct L2Norm;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct L2Norm<T, kIgnoreNan> : Squares<T, kIgnoreNan> {
  using State = typename Squares<T, kIgnoreNan>::State;
  using Reducer = SumOfSquares<T, kIgnoreNan>;
  static constexpr const char* kName = "l2_norm";

  WARPFOLD_FN Outcome Finish(const State& s, std::uint64_t) const {
    if constexpr (FloatElement<T>) {
      return {.value = Scalar::Of(CanonicalNan(std::sqrt(s)))};
    } else {
      return {.value = Scalar::Of(std::sqrt(Rounded(this->Exact(s))))};
    }
  }
};

}  // namespace warpfold::kernels
