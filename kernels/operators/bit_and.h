// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Bitwise and of integers.
#pragma once

#include "kernels/operators/bitwise.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct BitAnd;

template <IntegerElement T>
struct BitAnd<T, false> : Bitwise<T> {
  using SameBytes = BitAnd<SameBitsAs<T>, false>;
  static constexpr const char* kName = "bit_and";
  static constexpr Bits<T> kNeutral = static_cast<Bits<T>>(~Bits<T>{0});

  WARPFOLD_FN Bits<T> Combine(Bits<T> a, Bits<T> b) const { return a & b; }
  WARPFOLD_FN Bits<T> LeafIdentity() const { return Identity(); }
  WARPFOLD_FN Bits<T> Identity() const { return static_cast<Bits<T>>(~Bits<T>{0}); }
};

}  // namespace warpfold::kernels
