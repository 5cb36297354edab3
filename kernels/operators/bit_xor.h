// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Bitwise exclusive or of integers.
#pragma once

#include "kernels/operators/bitwise.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct BitXor;

template <IntegerElement T>
struct BitXor<T, false> : Bitwise<T> {
  using SameBytes = BitXor<SameBitsAs<T>, false>;
  static constexpr const char* kName = "bit_xor";
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN Bits<T> Combine(Bits<T> a, Bits<T> b) const { return a ^ b; }
  WARPFOLD_FN Bits<T> LeafIdentity() const { return Identity(); }
  WARPFOLD_FN Bits<T> Identity() const { return 0; }
};

}  // namespace warpfold::kernels
