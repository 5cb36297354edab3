// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Product. Integers: the exact value or overflow, wherever a zero is in the array. Floats: in float64.
#pragma once

#include <cmath>

#include "kernels/operators/operator.h"
#include "kernels/operators/ordered_key.h"

namespace warpfold::kernels {

template <class T, bool kIgnoreNan>
struct Product;

template <IntegerElement T>
struct Product<T, false> {
  // Sign and magnitude. Without a zero the magnitude never shrinks, so an overflow remains one; with a zero
  // the product is zero whatever came before.
  struct State {
    std::uint64_t magnitude;  // modulo 2^64
    std::uint32_t negative;   // 0 or 1
    std::uint32_t overflow;   // 1: the magnitude is 2^64 or more
  };
  // Elements are multiplied without checking each one for zeros and carries. A float estimate is multiplied
  // alongside: 0, or NaN if it was infinite before, means that an element is 0; above 2^64 it means overflow.
  // Near 2^64 it is too coarse to tell, and Widen consults the exact product.
  struct LeafState {
    std::uint64_t product;  // modulo 2^64, of magnitudes or elements (kOfMagnitudes)
    float estimate;         // of the product's magnitude
    std::uint32_t signs;    // bit 31: negative; the others have no meaning
  };
  using Element = T;
  static constexpr const char* kName = "product";
  static constexpr bool kCommutative = true;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kAnyOrder = true;
  static constexpr Bits<T> kNeutral = 1;

  // Elements of up to 32 bits are multiplied as magnitudes, which takes one multiplication less on a GPU.
  // Elements of 64 bits are multiplied as they are: the product modulo 2^64 is right except for its sign.
  static constexpr bool kOfMagnitudes = sizeof(T) < 8;
  // The magnitude of an element, to within two roundings.
  static WARPFOLD_FN float EstimateOf(T x) {
#if defined(__CUDA_ARCH__)
    return fabsf(static_cast<float>(ValueOf(x)));
#else
    return static_cast<float>(std::abs(DoubleOf(x)));
#endif
  }

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    const auto upper = static_cast<std::uint32_t>(static_cast<std::uint64_t>(Wide<T>{ValueOf(x)}) >> 32);
    const std::uint64_t factor = kOfMagnitudes ? MagnitudeOf(x) : static_cast<std::uint64_t>(ValueOf(x));
    return {factor, EstimateOf(x), kIsSigned<T> ? upper : 0};
  }
  WARPFOLD_FN LeafState Combine(const LeafState& a, const LeafState& b) const {
    return {a.product * b.product, a.estimate * b.estimate, a.signs ^ b.signs};
  }
  WARPFOLD_FN State Combine(State a, State b) const {
    // The magnitude of a zero makes the product's magnitude 0, and the other members are masked: a branch
    // would cost more.
    const std::uint32_t not_zero =
        (a.magnitude != 0 || a.overflow != 0) && (b.magnitude != 0 || b.overflow != 0);
    const Uint128 product = Uint128{a.magnitude} * b.magnitude;
    const std::uint32_t carried = static_cast<std::uint64_t>(product >> 64) != 0;
    return {static_cast<std::uint64_t>(product), (a.negative ^ b.negative) & not_zero,
            (a.overflow | b.overflow | carried) & not_zero};
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const {
    if (!(leaf.estimate > 0)) return {0, 0, 0};
    const std::uint32_t negative = leaf.signs >> 31;
    const std::uint64_t magnitude = !kOfMagnitudes && negative != 0 ? 0 - leaf.product : leaf.product;
    // The relative error of the float is less than 2^-10: 2^-24 for each of at most 4096 elements and as many
    // products. If the float is between 0.75 and 1.25 times 2^64, the product itself is from 2^63 to less
    // than 1.5 times 2^64, and then the top bit of the exact low word says whether it is below 2^64.
    const bool is_near = leaf.estimate > 0x1.8p63f && leaf.estimate < 0x1.4p64f;
    const bool overflow = is_near ? magnitude >> 63 == 0 : leaf.estimate > 0x1p64f;
    return {magnitude, negative, overflow};
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return {1, 1, 0}; }
  // The state for a product that was computed in another way. `negative` is 0 or 1; `magnitude` is modulo
  // 2^64 if the product does not fit.
  static WARPFOLD_FN LeafState LeafStateOf(std::uint64_t magnitude, std::uint32_t negative, bool overflow) {
    const float estimate = overflow ? HUGE_VALF : static_cast<float>(magnitude);
    return {!kOfMagnitudes && negative != 0 ? 0 - magnitude : magnitude, estimate, negative << 31};
  }
  WARPFOLD_FN State Identity() const { return {1, 0, 0}; }

  bool wrap = false;
  Product() = default;
  WARPFOLD_FN explicit Product(const OperatorParameters& parameters) : wrap(parameters.wrap_overflow) {}

  bool IsPossible(State s, std::uint64_t, std::uint64_t count) const {
    const bool zero = s.magnitude == 0 && s.overflow == 0;
    const bool may_be_negative = std::is_signed_v<Key<T>> && !zero;
    if (s.overflow > 1 || s.negative > (may_be_negative ? 1u : 0u)) return false;
    // The largest product of `count` elements that has this sign, as long as it is below 2^64, as it always
    // is for bool. The least signed element has the largest magnitude. If using it for all elements would
    // give the other sign, one of them is the greatest instead, whose magnitude is one less.
    const std::uint64_t odd_one = std::is_signed_v<Key<T>> && count % 2 != s.negative ? 1 : 0;
    Uint128 largest = 1;
    for (std::uint64_t i = 0; i < count && i < 64; ++i) {
      largest *= kLargestMagnitude<T> - (i < odd_one ? 1 : 0);
      if (largest >> 64 != 0) return true;
    }
    return s.overflow == 0 && s.magnitude <= largest;
  }
  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const {
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
  static constexpr Bits<T> kNeutral = kOneBits<T>;

  WARPFOLD_FN State Lift(T x, std::uint32_t) const {
    if constexpr (kIgnoreNan) return IsNan(x) ? 1.0 : double{ValueOf(x)};
    return double{ValueOf(x)};
  }
  WARPFOLD_FN State Combine(State a, State b) const { return a * b; }
  WARPFOLD_FN State Widen(LeafState leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return 1.0; }
  WARPFOLD_FN State Identity() const { return 1.0; }
  State Canonical(State s) const { return CanonicalNan(s); }

  WARPFOLD_FN Outcome Finish(State s, std::uint64_t) const { return {.value = Scalar::Of(CanonicalNan(s))}; }
};

}  // namespace warpfold::kernels
