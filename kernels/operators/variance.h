// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean of the squared deviations from the mean, over count - ddof.
#pragma once

#include "kernels/operators/moments.h"
#include "kernels/operators/power_sums.h"

namespace warpfold::kernels {

// The states in which variance, stddev and describe summarise the elements.
template <AnyElement T, bool kIgnoreNan>
struct VarianceStatesOf {
  using type = MomentsOperator<T, kIgnoreNan>;
};
template <IntegerElement T>
struct VarianceStatesOf<T, false> {
  using type = PowerSumsOperator<T>;
};
template <class T, bool kIgnoreNan>
using VarianceStates = typename VarianceStatesOf<T, kIgnoreNan>::type;

template <class T, bool kIgnoreNan>
struct Variance;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Variance<T, kIgnoreNan> : VarianceStates<T, kIgnoreNan> {
  using State = typename VarianceStates<T, kIgnoreNan>::State;
  static constexpr const char* kName = "variance";

  double ddof = 0;
  Variance() = default;
  WARPFOLD_FN explicit Variance(const OperatorParameters& parameters) : ddof(parameters.ddof) {}

  WARPFOLD_FN Outcome Finish(const State& s, std::uint64_t count) const {
    if (count == 0) return {.error = Outcome::Error::kEmpty};
    return {.value = Scalar::Of(this->VarianceOf(s, count, ddof))};
  }
};

}  // namespace warpfold::kernels
