// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The smallest element.
#pragma once

#include "kernels/operators/extremum.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Min;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Min<T, kIgnoreNan> : Extremum<T, kIgnoreNan, /*kMax=*/false> {
  static constexpr const char* kName = "min";
};

}  // namespace warpfold::kernels
