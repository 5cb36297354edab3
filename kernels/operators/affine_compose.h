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
  using State = Element;
  // If there is a modulus, entries are congruent to those of states.
  struct LeafState {
    T entries[2];
  };
  static constexpr const char* kName = "affine_compose";
  static constexpr bool kCommutative = false;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kTakesModulus = IntegerElement<T>;

  // If there is a modulus, entries of states are 0 to modulus - 1.
  Residues<Bits<T>> residues;
  Congruences<Bits<T>> congruences;
  AffineCompose() = default;
  WARPFOLD_FN explicit AffineCompose(const OperatorParameters& parameters)
      : residues(static_cast<Bits<T>>(parameters.modulus)),
        congruences(static_cast<Bits<T>>(parameters.modulus)) {}

  WARPFOLD_FN LeafState Lift(const Element& x, std::uint32_t) const {
    LeafState lifted = {{x.entries[0], x.entries[1]}};
    if constexpr (IntegerElement<T> && kIsSigned<T>) {
      if (residues.any()) {
        for (T& entry : lifted.entries) entry = congruences.OfSigned(static_cast<Bits<T>>(entry));
      }
    }
    return lifted;
  }
  WARPFOLD_FN LeafState Combine(const LeafState& f, const LeafState& g) const { return Compose(f, g); }
  WARPFOLD_FN State Combine(const State& f, const State& g) const { return Reduced(Compose(f, g)); }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const {
    return Reduced({{leaf.entries[0], leaf.entries[1]}});
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return Lift(Identity(), 0); }
  WARPFOLD_FN State Identity() const { return {{1, 0}}; }
  State Canonical(State s) const requires FloatElement<T> {
    for (T& entry : s.entries) entry = CanonicalNan(entry);
    return s;
  }
  bool IsPossible(const State& s, std::uint64_t, std::uint64_t) const {
    return AreResidues(s.entries, 2, residues.modulus());
  }
  Outcome FinishEntry(const State& s, std::uint32_t entry) const {
    return {.value = Scalar::Of(Wide<T>{s.entries[entry]})};
  }

 private:
  // The state with entries reduced to residues, if there is a modulus.
  WARPFOLD_FN State Reduced(const State& s) const {
    if constexpr (IntegerElement<T>) {
      if (residues.any()) {
        return {{static_cast<T>(residues.Of(static_cast<Bits<T>>(s.entries[0]))),
                 static_cast<T>(residues.Of(static_cast<Bits<T>>(s.entries[1])))}};
      }
    }
    return s;
  }

  // g after f. With a modulus: from congruent entries to congruent ones.
  template <class S>
  WARPFOLD_FN S Compose(const S& f, const S& g) const {
    if constexpr (IntegerElement<T>) {
      using Ring = Bits<T>;
      const auto a = static_cast<Ring>(g.entries[0]);
      const auto b = static_cast<Ring>(g.entries[1]);
      const auto slope = static_cast<Ring>(f.entries[0]);
      const auto offset = static_cast<Ring>(f.entries[1]);
      if (residues.any()) {
        const auto modulo = [this](DoubleWord<Ring> x) { return static_cast<T>(congruences.Of(x)); };
        return {{modulo(DoubleWord<Ring>{a} * slope), modulo(DoubleWord<Ring>{a} * offset + b)}};
      }
      return {{static_cast<T>(a * slope), static_cast<T>(a * offset + b)}};
    } else {
      const T product = g.entries[0] * f.entries[1];
      return {{g.entries[0] * f.entries[0], product + g.entries[1]}};
    }
  }
};

}  // namespace warpfold::kernels
