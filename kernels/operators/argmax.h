// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The index of the first largest element, and the element.
#pragma once

#include "kernels/operators/extremum.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Argmax;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Argmax<T, kIgnoreNan>
    : ArgExtremum<T, kIgnoreNan, /*kMax=*/true> {
  static constexpr const char* kName = "argmax";
};

}  // namespace warpfold::kernels
