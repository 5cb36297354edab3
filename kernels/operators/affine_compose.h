// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The composition, in array order, of maps x -> a x + b: the first element is applied first. Elements are
// rows (a, b). Integers: in the ring modulo 2^bits, or modulo a given modulus. Floats: in the element type,
// unfused.
#pragma once

#include "kernels/operators/operator.h"
#include "kernels/operators/residue.h"

namespace warpfold::kernels {

template <class T>
struct AffineMap {
  T entries[2];  // a, b
};

template <class T>
struct AffineCompose;

template <RingElement T>
struct AffineCompose<T> {
  using Element = AffineMap<T>;
  using LeafState = Element;
  using State = Element;
  static constexpr const char* kName = "affine_compose";
  static constexpr bool kCommutative = false;
  static constexpr bool kHasIdentity = true;

  // 0: no modulus. Otherwise entries of states are 0 to modulus - 1.
  Bits<T> modulus = 0;
  AffineCompose() = default;
  WARPFOLD_FN explicit AffineCompose(const OperatorParameters& parameters)
      : modulus(static_cast<Bits<T>>(parameters.modulus)) {}

  WARPFOLD_FN State Lift(Element x, std::uint32_t) const {
    if constexpr (IntegerElement<T>) {
      if (modulus != 0) return {{Residue(x.entries[0], modulus), Residue(x.entries[1], modulus)}};
    }
    return x;
  }
  WARPFOLD_FN State Combine(const State& f, const State& g) const {
    if constexpr (IntegerElement<T>) {
      using Ring = Bits<T>;
      const auto a = static_cast<Ring>(g.entries[0]);
      const auto b = static_cast<Ring>(g.entries[1]);
      if (modulus != 0) {
        return {{MultiplyAdd(a, static_cast<Ring>(f.entries[0]), Ring{0}),
                 MultiplyAdd(a, static_cast<Ring>(f.entries[1]), b)}};
      }
      return {{static_cast<T>(a * static_cast<Ring>(f.entries[0])),
               static_cast<T>(a * static_cast<Ring>(f.entries[1]) + b)}};
    } else {
      const T product = g.entries[0] * f.entries[1];
      return {{g.entries[0] * f.entries[0], product + g.entries[1]}};
    }
  }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const { return {{1, 0}}; }
  State Canonical(State s) const {
    if constexpr (FloatElement<T>) {
      for (T& entry : s.entries) entry = CanonicalNan(entry);
    }
    return s;
  }
  bool IsPossible(const State& s, std::uint64_t, std::uint64_t) const {
    if constexpr (IntegerElement<T>) {
      for (const T entry : s.entries) {
        if (modulus != 0 && static_cast<Bits<T>>(entry) >= modulus) return false;
      }
    }
    return true;
  }
  Outcome FinishEntry(const State& s, std::uint32_t entry) const {
    return {.value = Scalar::Of(Wide<T>{s.entries[entry]})};
  }

 private:
  WARPFOLD_FN T MultiplyAdd(Bits<T> a, Bits<T> x, Bits<T> b) const {
    using Double = std::conditional_t<sizeof(T) == 4, std::uint64_t, Uint128>;
    return static_cast<T>((Double{a} * x + b) % modulus);  // residues: the sum fits
  }
};

}  // namespace warpfold::kernels
