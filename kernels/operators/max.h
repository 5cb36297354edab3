// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The largest element.
#pragma once

#include "kernels/operators/extremum.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Max;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Max<T, kIgnoreNan> : Extremum<T, kIgnoreNan, /*kMax=*/true> {
  static constexpr const char* kName = "max";
};

}  // namespace warpfold::kernels
