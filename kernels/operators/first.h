// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The first element.
#pragma once

#include <type_traits>

#include "kernels/operators/present_element.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct First;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct First<T, kIgnoreNan> : PresentElement<T, kIgnoreNan> {
  using SameBytes = First<std::conditional_t<kIgnoreNan, T, Bits<T>>, kIgnoreNan>;
  static constexpr const char* kName = "first";
  static constexpr bool kFromTheLeft = true;

  template <class S>
  WARPFOLD_FN S Combine(const S& a, const S& b) const {
    return a.present != 0 ? a : b;
  }
};

}  // namespace warpfold::kernels
