// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The index of the first smallest element, and the element.
#pragma once

#include "kernels/operators/extremum.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Argmin;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Argmin<T, kIgnoreNan>
    : ArgExtremum<T, kIgnoreNan, /*kMax=*/false> {
  static constexpr const char* kName = "argmin";
};

}  // namespace warpfold::kernels
