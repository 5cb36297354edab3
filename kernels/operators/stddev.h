// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The standard deviation: the square root of the variance.
#pragma once

#include <cmath>

#include "kernels/operators/variance.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Stddev;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Stddev<T, kIgnoreNan> : VarianceStates<T, kIgnoreNan> {
  using Reducer = Variance<T, kIgnoreNan>;
  using State = typename Reducer::State;
  static constexpr const char* kName = "stddev";

  double ddof = 0;
  Stddev() = default;
  WARPFOLD_FN explicit Stddev(const OperatorParameters& parameters) : ddof(parameters.ddof) {}

  WARPFOLD_FN Outcome Finish(const State& s, std::uint64_t count) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    return {.value = Scalar::Of(CanonicalNan(std::sqrt(this->VarianceOf(s, count, ddof))))};
  }
};

}  // namespace warpfold::kernels
