// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean of the squared deviations from the mean, over count - ddof.
#pragma once

#include "kernels/operators/moments.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Variance;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Variance<T, kIgnoreNan> : MomentsOperator<T, kIgnoreNan> {
  static constexpr const char* kName = "variance";

  std::uint64_t ddof = 0;
  Variance() = default;
  WARPFOLD_FN explicit Variance(const OperatorParameters& parameters) : ddof(parameters.ddof) {}

  WARPFOLD_FN Outcome Finish(const Moments& s, std::uint64_t count) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    return {.value = Scalar::Of(VarianceOf(s, ddof))};
  }
};

}  // namespace warpfold::kernels
