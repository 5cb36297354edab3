// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether some element is not zero.
#pragma once

#include "kernels/operators/count_nonzero.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Any;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Any<T, kIgnoreNan> : CountNonzero<T, kIgnoreNan> {
  using Reducer = CountNonzero<T, kIgnoreNan>;
  static constexpr const char* kName = "any";
  WARPFOLD_FN Outcome Finish(std::uint64_t nonzero, std::uint64_t) const {
    return {.value = Scalar::Of(nonzero != 0)};
  }
};

}  // namespace warpfold::kernels
