// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The largest magnitude: the maximum norm. Integers: uint64, so that the smallest integer has a magnitude,
// too. NaN propagates unless ignored.
#pragma once

#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct MaxAbs;

template <AnyElement T, bool kIgnoreNan>
requires(FloatElement<T> || !kIgnoreNan) struct MaxAbs<T, kIgnoreNan> {
  using Element = T;
  // Magnitudes as bits: the bits of floats have the order of their values, with NaN above infinity.
  using LeafState = Bits<T>;
  using State = Bits<T>;
  static constexpr const char* kName = "max_abs";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    if constexpr (FloatElement<T>) {
      if (IsNan(x)) return kIgnoreNan ? Identity() : kNan;
      return static_cast<State>(BitCast<State>(x) & kMagnitude);
    } else {
      return MagnitudeOf(x);
    }
  }
  WARPFOLD_FN State Combine(State a, State b) const { return b > a ? b : a; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return 0; }
  WARPFOLD_FN State Identity() const { return 0; }

  bool IsPossible(State s, std::uint64_t, std::uint64_t) const {
    if constexpr (IntegerElement<T>) {
      return s <= kLargestMagnitude<T>;
    } else {
      // The bits of a float that is not negative are its key.
      return s <= kMagnitude && IsKey<T>(static_cast<Key<T>>(s), kIgnoreNan ? Identity() : kNan);
    }
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const {
    if constexpr (FloatElement<T>) {
      return {.value = Scalar::Of(CanonicalNan(static_cast<double>(ValueOf(BitCast<T>(s)))))};
    } else {
      return {.value = Scalar::Of(std::uint64_t{s})};
    }
  }

 private:
  static constexpr State kMagnitude = static_cast<State>(static_cast<State>(~State{0}) >> 1);
  static constexpr State kNan = kMagnitude;
};

}  // namespace warpfold::kernels
