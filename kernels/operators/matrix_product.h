// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The product, in array order, of square matrices. Integers: in the ring modulo 2^bits, or modulo a given
// modulus. Floats: in the element type, each entry's terms are added from the first to the last, with fused
// multiply-adds.
#pragma once

#include "kernels/operators/large_matrix_product.h"
#include "kernels/operators/matrix_terms.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels {

template <class T, int kDimension>
struct SquareMatrix {
  T entries[kDimension * kDimension];  // row-major
};

template <class T, int kDimension>
struct MatrixProduct;

template <RingElement T, int kDimension>
struct MatrixProduct<T, kDimension> {
  using Element = SquareMatrix<T, kDimension>;
  using State = Element;
  // If there is a modulus, entries are congruent to those of states.
  struct LeafState {
    T entries[kDimension * kDimension];
  };
  static constexpr const char* kName = "matrix_product";
  static constexpr bool kCommutative = false;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kTakesModulus = IntegerElement<T>;

  static constexpr int kRows = kDimension;
  static constexpr int kEntries = kDimension * kDimension;
  using Large = LargeMatrixProduct<T>;  // the same for matrices of any size

  // If there is a modulus, entries of states are 0 to modulus - 1.
  Residues<Bits<T>> residues;
  Congruences<Bits<T>> congruences;
  MatrixProduct() = default;
  WARPFOLD_FN explicit MatrixProduct(const OperatorParameters& parameters)
      : residues(static_cast<Bits<T>>(parameters.modulus)),
        congruences(static_cast<Bits<T>>(parameters.modulus)) {}

  WARPFOLD_FN LeafState Lift(const Element& x, std::uint32_t) const {
    LeafState lifted;
    for (int i = 0; i < kEntries; ++i) lifted.entries[i] = x.entries[i];
    if constexpr (IntegerElement<T> && kIsSigned<T>) {
      if (residues.any()) {
        for (T& entry : lifted.entries) entry = congruences.OfSigned(static_cast<Bits<T>>(entry));
      }
    }
    return lifted;
  }

  WARPFOLD_FN LeafState Combine(const LeafState& a, const LeafState& b) const { return Multiply(a, b); }
  WARPFOLD_FN State Combine(const State& a, const State& b) const { return Reduced(Multiply(a, b)); }
  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const {
    State state;
    for (int i = 0; i < kEntries; ++i) state.entries[i] = leaf.entries[i];
    return Reduced(state);
  }
  WARPFOLD_FN LeafState LeafIdentity() const { return Lift(Identity(), 0); }
  WARPFOLD_FN State Identity() const {
    State identity{};
    for (int i = 0; i < kDimension; ++i) identity.entries[i * (kDimension + 1)] = 1;
    return identity;
  }
  State Canonical(State s) const requires FloatElement<T> {
    for (T& entry : s.entries) entry = CanonicalNan(entry);
    return s;
  }

  bool IsPossible(const State& s, std::uint64_t, std::uint64_t) const {
    return AreResidues(s.entries, kEntries, residues.modulus());
  }
  Outcome FinishEntry(const State& s, std::uint32_t entry) const {
    return {.value = Scalar::Of(Wide<T>{s.entries[entry]})};
  }

 private:
  // Larger matrices do not fit a thread's registers, unrolled or not.
  static constexpr int kLargestInRegisters = 4;

  // The state with entries reduced to residues, if there is a modulus.
  WARPFOLD_FN State Reduced(State s) const {
    if constexpr (IntegerElement<T>) {
      if (residues.any()) {
        for (T& entry : s.entries) entry = static_cast<T>(residues.Of(static_cast<Bits<T>>(entry)));
      }
    }
    return s;
  }

  // With a modulus, the product of congruent entries is congruent.
  template <class S>
  WARPFOLD_FN S Multiply(const S& a, const S& b) const {
    if constexpr (IntegerElement<T>) {
      if (residues.any()) return Multiply(CongruentTerms<Bits<T>>{congruences}, a, b);
    }
    return Multiply(RingTerms<T>(), a, b);
  }

  template <class Terms, class S>
  static WARPFOLD_FN S Multiply(const Terms& terms, const S& a, const S& b) {
    if constexpr (kDimension <= kLargestInRegisters) {
      return MultiplyInRegisters(terms, a, b);
    } else {
      return MultiplyInMemory(terms, a, b);
    }
  }

  template <class Terms, class S>
  static WARPFOLD_FN S MultiplyInRegisters(const Terms& terms, const S& a, const S& b) {
    using Entry = typename Terms::Entry;
    S c;
    WARPFOLD_UNROLL
    for (int i = 0; i < kDimension; ++i) {
      WARPFOLD_UNROLL
      for (int j = 0; j < kDimension; ++j) {
        auto sum =
            terms.First(static_cast<Entry>(a.entries[i * kDimension]), static_cast<Entry>(b.entries[j]));
        WARPFOLD_UNROLL
        for (int k = 1; k < kDimension; ++k) {
          terms.Add(sum, static_cast<Entry>(a.entries[i * kDimension + k]),
                    static_cast<Entry>(b.entries[k * kDimension + j]));
        }
        c.entries[i * kDimension + j] = static_cast<T>(terms.template Finish<kDimension>(sum));
      }
    }
    return c;
  }

  // Adds the same terms in the same order, row by row: a row of b is used as soon as it is read.
  template <class Terms, class S>
  static WARPFOLD_LARGE_FN S MultiplyInMemory(const Terms& terms, const S& a, const S& b) {
    using Entry = typename Terms::Entry;
    S c;
    WARPFOLD_KEEP_LOOP
    for (int i = 0; i < kDimension; ++i) {
      typename Terms::Sum sums[kDimension];
      for (int j = 0; j < kDimension; ++j) sums[j] = Terms::Empty();
      WARPFOLD_KEEP_LOOP
      for (int k = 0; k < kDimension; ++k) {
        const auto left = static_cast<Entry>(a.entries[i * kDimension + k]);
        for (int j = 0; j < kDimension; ++j) {
          terms.Add(sums[j], left, static_cast<Entry>(b.entries[k * kDimension + j]));
        }
      }
      for (int j = 0; j < kDimension; ++j) {
        c.entries[i * kDimension + j] = static_cast<T>(terms.Finish(sums[j]));
      }
    }
    return c;
  }
};

}  // namespace warpfold::kernels
