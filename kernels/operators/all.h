// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether no element is zero. NaN is not zero, so that ignoring it changes nothing.
#pragma once

#include "kernels/operators/count_nonzero.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct All;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct All<T, kIgnoreNan> : CountNonzero<T, false> {
  using Reducer = CountNonzero<T, false>;
  static constexpr const char* kName = "all";
  WARPFOLD_FN Outcome Finish(std::uint64_t nonzero, std::uint64_t count) const {
    return {.value = Scalar::Of(nonzero == count)};
  }
};

}  // namespace warpfold::kernels
