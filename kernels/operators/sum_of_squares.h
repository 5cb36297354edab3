// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sum of the squares. Integers: the exact value. Floats: in float64 along the canonical tree.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/operators/squares.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct SumOfSquares;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct SumOfSquares<T, kIgnoreNan> : Squares<T, kIgnoreNan> {
  using State = typename Squares<T, kIgnoreNan>::State;
  static constexpr const char* kName = "sum_of_squares";

  bool wrap = false;
  SumOfSquares() = default;
  WARPFOLD_FN explicit SumOfSquares(const OperatorParameters& parameters) : wrap(parameters.wrap_overflow) {}

  WARPFOLD_FN Outcome Finish(const State& s, std::uint64_t) const {
    if constexpr (FloatElement<T>) {
      return {.value = Scalar::Of(CanonicalNan(s))};
    } else {
      const Uint192 exact = this->Exact(s);
      if (wrap) return {.value = Scalar::Of(Wide<T>{static_cast<Value<T>>(exact.words[0])})};
      constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Wide<T>>::max());
      if (exact.words[1] != 0 || exact.words[2] != 0 || exact.words[0] > kMost) {
        return {.error = Outcome::Error::kOverflow};
      }
      return {.value = Scalar::Of(static_cast<Wide<T>>(exact.words[0]))};
    }
  }
};

}  // namespace warpfold::kernels
