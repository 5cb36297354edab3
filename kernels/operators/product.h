// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Product. Integers: the exact value or overflow, wherever in the array a zero stands. Floats: in float64.
#pragma once

#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Product;

template <IntegerElement T>
struct Product<T, false> {
  // Sign and magnitude. Without a zero the magnitude never shrinks, so an overflow stays one; with a
  // zero the product is zero whatever came before.
  struct State {
    std::uint64_t magnitude;  // modulo 2^64
    std::uint32_t negative;   // 0 or 1
    std::uint32_t overflow;   // 1: the magnitude is 2^64 or more
  };
  using Least = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  // The same without choices, which would cost more than the multiplication.
  struct LeafState {
    std::uint64_t magnitude;  // modulo 2^64
    std::uint32_t signs;      // bit 31: negative; the others mean nothing
    std::uint32_t carried;    // not 0: the magnitude is 2^64 or more, if no element is zero
    Least least;              // 0 if an element is zero
  };
  using Element = T;
  static constexpr const char* kName = "product";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    // Of the element's own width, so that the compiler sees how wide the multiplication is.
    const Bits<T> magnitude = MagnitudeOf(x);
    const auto upper = static_cast<std::uint32_t>(static_cast<std::uint64_t>(Wide<T>{ValueOf(x)}) >> 32);
    return {magnitude, kIsSigned<T> ? upper : 0, 0, magnitude};
  }
  WARPFOLD_FN LeafState Combine(const LeafState& a, const LeafState& b) const {
    const Uint128 product = Uint128{a.magnitude} * b.magnitude;
    const auto carried =
        static_cast<std::uint32_t>(product >> 64) | static_cast<std::uint32_t>(product >> 96);
    return {static_cast<std::uint64_t>(product), a.signs ^ b.signs, a.carried | b.carried | carried,
            b.least < a.least ? b.least : a.least};
  }
  WARPFOLD_FN State Combine(State a, State b) const {
    const bool zero = (a.magnitude == 0 && a.overflow == 0) || (b.magnitude == 0 && b.overflow == 0);
    if (zero) return {0, 0, 0};
    const Uint128 product = Uint128{a.magnitude} * b.magnitude;
    const bool carried = static_cast<std::uint64_t>(product >> 64) != 0;
    return {static_cast<std::uint64_t>(product), a.negative ^ b.negative, a.overflow | b.overflow | carried};
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const {
    if (leaf.least == 0) return {0, 0, 0};
    return {leaf.magnitude, leaf.signs >> 31, leaf.carried != 0};
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return {1, 0, 0, ~Least{0}}; }
  WARPFOLD_FN State Identity() const { return {1, 0, 0}; }

  bool wrap = false;
  Product() = default;
  WARPFOLD_FN explicit Product(const OperatorParameters& parameters) : wrap(parameters.wrap_overflow) {}

  bool IsPossible(State s, std::uint64_t, std::uint64_t) const {
    const bool zero = s.magnitude == 0 && s.overflow == 0;
    const bool may_be_negative = std::is_signed_v<Key<T>> && !zero;
    return s.overflow <= 1 && s.negative <= (may_be_negative ? 1u : 0u);
  }
  Outcome Finish(State s, std::uint64_t) const {
    const std::uint64_t bits = s.negative != 0 ? 0 - s.magnitude : s.magnitude;
    if (wrap) return {.value = Scalar::Of(Wide<T>{static_cast<Value<T>>(bits)})};
    const std::uint64_t largest =
        kIsSigned<T> ? (std::uint64_t{1} << 63) - (s.negative == 0) : ~std::uint64_t{0};
    if (s.overflow != 0 || s.magnitude > largest) return {.error = Outcome::Error::kOverflow};
    return {.value = Scalar::Of(static_cast<Wide<T>>(bits))};
  }
};

template <FloatElement T, bool kIgnoreNan>
struct Product<T, kIgnoreNan> {
  using Element = T;
  using LeafState = double;
  using State = double;
  static constexpr const char* kName = "product";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    if constexpr (kIgnoreNan) return IsNan(x) ? 1.0 : double{ValueOf(x)};
    return double{ValueOf(x)};
  }
  WARPFOLD_FN State Combine(State a, State b) const { return a * b; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return 1.0; }
  WARPFOLD_FN State Identity() const { return 1.0; }
  State Canonical(State s) const { return CanonicalNan(s); }

  Outcome Finish(State s, std::uint64_t) const { return {.value = Scalar::Of(CanonicalNan(s))}; }
};

}  // namespace warpfold::kernels
