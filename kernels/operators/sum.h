// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sum. Integers: the exact value, in 128 bits above the leaf. Floats: in float64 along the canonical tree.
#pragma once

#include "kernels/operators/float_bounds.h"
#include "kernels/operators/integer_result.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Sum;

template <IntegerElement T>
struct Sum<T, false> {
  using Element = T;
  using LeafState = LeafSum<T>;
  using State = Uint128;  // two's complement
  static constexpr const char* kName = "sum";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;
  static constexpr Bits<T> kNeutral = 0;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    return static_cast<LeafState>(static_cast<Wide<T>>(ValueOf(x)));
  }
  template <class S>
  WARPFOLD_FN S Combine(S a, S b) const {
    return a + b;
  }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const {
    if constexpr (kIsSigned<T> && sizeof(T) < 8) {
      return static_cast<Uint128>(Int128{static_cast<std::make_signed_t<LeafState>>(leaf)});
    } else {
      return leaf;
    }
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return 0; }
  WARPFOLD_FN State Identity() const { return 0; }

  bool wrap = false;
  Sum() = default;
  WARPFOLD_FN explicit Sum(const OperatorParameters& parameters) : wrap(parameters.wrap_overflow) {}

  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const {
    // An integer is its own key. Neither product overflows, because the count is at most kMaxElements<T>.
    const auto sum = static_cast<Int128>(s);
    constexpr Int128 kLargest = std::same_as<T, Boolean> ? 1 : Int128{kLargestKey<T>};
    return sum >= Int128{kSmallestKey<T>} * count && sum <= kLargest * count;
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const {
    if (wrap) return {.value = Scalar::Of(Wide<T>{static_cast<Value<T>>(s)})};
    return IntegerResult<T>(s);
  }
};

template <FloatElement T, bool kIgnoreNan>
struct Sum<T, kIgnoreNan> {
  using Element = T;
  using LeafState = double;
  using State = double;
  static constexpr const char* kName = "sum";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr Bits<T> kNeutral = kSignBit<T>;  // -0.0

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    // A NaN counts as 0.0, so that an array of only NaN sums to 0.0, as with numpy.nansum, and not to -0.0.
    if constexpr (kIgnoreNan) return IsNan(x) ? 0.0 : double{ValueOf(x)};
    return double{ValueOf(x)};
  }
  WARPFOLD_FN State Combine(State a, State b) const { return a + b; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  // -0.0 and not 0.0: only -0.0 leaves every addend as it is, including -0.0.
  WARPFOLD_FN State Identity() const { return -0.0; }
  State Canonical(State s) const { return CanonicalNan(s); }

  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const {
    // The sum of one element is a number, or 0 for NaN. Two may be infinities whose sum is NaN.
    if (kIgnoreNan && count == 1 && s != s) return false;
    return IsSumOfFloats<T>(s, count);
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t count) const {
    return {.value = Scalar::Of(count == 0 ? 0.0 : CanonicalNan(s))};
  }
};

}  // namespace warpfold::kernels
