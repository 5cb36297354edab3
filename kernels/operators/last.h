// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The last element.
#pragma once

#include <type_traits>

#include "kernels/operators/present_element.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Last;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct Last<T, kIgnoreNan> : PresentElement<T, kIgnoreNan> {
  using SameBytes = Last<std::conditional_t<kIgnoreNan, T, Bits<T>>, kIgnoreNan>;
  static constexpr const char* kName = "last";
  static constexpr bool kFromTheLeft = false;

  template <class S>
  WARPFOLD_FN S Combine(const S& a, const S& b) const {
    return b.present != 0 ? b : a;
  }
};

}  // namespace warpfold::kernels
