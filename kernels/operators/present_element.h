// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What first and last share: an element, or none.
#pragma once

#include "kernels/operators/operator.h"

namespace warpfold::kernels {

struct PresentState {
  std::uint64_t bits;
  std::uint64_t present;  // 1, or 0 if all elements are ignored
};

template <AnyElement T, bool kIgnoreNan>
struct PresentElement {
  struct LeafState {
    Bits<T> bits;
    Bits<T> present;
  };
  using State = PresentState;
  static constexpr bool kSkipsElements = FloatElement<T> && kIgnoreNan;
  using Element = T;
  static constexpr bool kCommutative = false;
  static constexpr bool kHasIdentity = false;
  static constexpr bool kScalarsOnly = true;

  WARPFOLD_FN LeafState Lift(T x, std::uint32_t) const {
    if constexpr (kSkipsElements) {
      if (IsNan(x)) return LeafIdentity();
    }
    return {BitCast<Bits<T>>(x), 1};
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const { return {leaf.bits, leaf.present}; }
  WARPFOLD_FN LeafState LeafIdentity() const { return {0, 0}; }
  WARPFOLD_FN State Identity() const { return {0, 0}; }

  bool IsPossible(const State& s, std::uint64_t, std::uint64_t) const {
    if (s.present == 0) return kSkipsElements && s.bits == 0;
    if constexpr (kSkipsElements) {
      if (IsNan(BitCast<T>(static_cast<Bits<T>>(s.bits)))) return false;
    }
    return s.present == 1 && s.bits == static_cast<Bits<T>>(s.bits);
  }

  WARPFOLD_FN Outcome Finish(const State& s, std::uint64_t) const {
    if (s.present == 0) return {.error = Outcome::Error::kEmpty};
    const auto value = ValueOf(BitCast<T>(static_cast<Bits<T>>(s.bits)));
    if constexpr (FloatElement<T>) {
      return {.value = Scalar::Of(CanonicalNan(static_cast<double>(value)))};
    } else {
      return {.value = Scalar::Of(static_cast<Natural<T>>(value))};
    }
  }
};

}  // namespace warpfold::kernels
