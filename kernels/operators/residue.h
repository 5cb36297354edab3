// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Integers modulo a number.
#pragma once

#include "kernels/operators/element_types.h"

namespace warpfold::kernels {

// 0 to modulus - 1, counted from modulus downwards for negative x. The modulus fits T: requests are checked
// for that.
template <IntegerElement T>
WARPFOLD_FN T Residue(T x, Bits<T> modulus) {
  if constexpr (kIsSigned<T>) {
    const T remainder = x % static_cast<T>(modulus);
    return remainder < 0 ? remainder + static_cast<T>(modulus) : remainder;
  } else {
    return x % modulus;
  }
}

}  // namespace warpfold::kernels
