// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the bitwise operators share.
#pragma once

#include <concepts>
#include <type_traits>

#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

// A boolean is true for every byte except 0, so its bits must not be combined as they are.
template <IntegerElement T>
using SameBitsAs = std::conditional_t<std::same_as<T, Boolean>, T, Bits<T>>;

template <IntegerElement T>
struct Bitwise {
  using Element = T;
  using LeafState = Bits<T>;
  using State = Bits<T>;
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const { return static_cast<State>(ValueOf(x)); }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  bool IsPossible(State s, std::uint64_t, std::uint64_t) const {
    return IsKey<T>(static_cast<Key<T>>(s), 0);  // for bool, 0 or 1
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const {
    return {.value = Scalar::Of(static_cast<Natural<T>>(static_cast<Value<T>>(s)))};
  }
};

}  // namespace warpfold::kernels
