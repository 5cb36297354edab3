// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The product, in array order, of square matrices. Integers: in the ring modulo 2^bits, or modulo a given
// modulus. Floats: in the element type, each entry's terms added from the first to the last, by fused
// multiply-adds.
#pragma once

#include "kernels/operators/operator.h"
#include "kernels/operators/residue.h"

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
  using LeafState = Element;
  using State = Element;
  static constexpr const char* kName = "matrix_product";
  static constexpr bool kCommutative = false;
  static constexpr bool kHasIdentity = true;

  // 0: no modulus. Otherwise entries of states are 0 to modulus - 1.
  Bits<T> modulus = 0;
  MatrixProduct() = default;
  WARPFOLD_FN explicit MatrixProduct(const OperatorParameters& parameters)
      : modulus(static_cast<Bits<T>>(parameters.modulus)) {}

  WARPFOLD_FN State Lift(Element x, std::uint32_t) const {
    if constexpr (IntegerElement<T>) {
      if (modulus != 0) {
        for (T& entry : x.entries) entry = Residue(entry, modulus);
      }
    }
    return x;
  }

  WARPFOLD_FN State Combine(const State& a, const State& b) const {
    if constexpr (IntegerElement<T>) {
      if (modulus != 0) return CombineModulo(a, b);
    }
    if constexpr (kDimension <= kLargestInRegisters) {
      return CombineInRegisters(a, b);
    } else {
      return CombineInMemory(a, b);
    }
  }

  WARPFOLD_FN State Widen(const LeafState& leaf, std::uint64_t) const { return leaf; }
  WARPFOLD_FN LeafState LeafIdentity() const { return Identity(); }
  WARPFOLD_FN State Identity() const {
    State identity{};
    for (int i = 0; i < kDimension; ++i) identity.entries[i * (kDimension + 1)] = 1;
    return identity;
  }
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
  // Larger matrices do not fit a thread's registers, unrolled or not.
  static constexpr int kLargestInRegisters = 4;
  // Integers wrap as unsigned ones.
  using Ring = std::conditional_t<FloatElement<T>, T, Bits<T>>;
  static WARPFOLD_FN Ring Times(T a, T b) { return static_cast<Ring>(a) * static_cast<Ring>(b); }
  // Adds the next term of an entry.
  static WARPFOLD_FN Ring Add(Ring sum, T a, T b) {
    if constexpr (FloatElement<T>) {
      return FusedMultiplyAdd(a, b, sum);
    } else {
      return sum + Times(a, b);
    }
  }

  static WARPFOLD_FN State CombineInRegisters(const State& a, const State& b) {
    State c;
    WARPFOLD_UNROLL
    for (int i = 0; i < kDimension; ++i) {
      WARPFOLD_UNROLL
      for (int j = 0; j < kDimension; ++j) {
        Ring sum = Times(a.entries[i * kDimension], b.entries[j]);
        WARPFOLD_UNROLL
        for (int k = 1; k < kDimension; ++k) {
          sum = Add(sum, a.entries[i * kDimension + k], b.entries[k * kDimension + j]);
        }
        c.entries[i * kDimension + j] = static_cast<T>(sum);
      }
    }
    return c;
  }

  // The same terms in the same order, row by row: a row of b is used as soon as it is read.
  static WARPFOLD_LARGE_FN State CombineInMemory(const State& a, const State& b) {
    State c;
    WARPFOLD_KEEP_LOOP
    for (int i = 0; i < kDimension; ++i) {
      Ring sums[kDimension];
      for (int j = 0; j < kDimension; ++j) sums[j] = Times(a.entries[i * kDimension], b.entries[j]);
      WARPFOLD_KEEP_LOOP
      for (int k = 1; k < kDimension; ++k) {
        const T factor = a.entries[i * kDimension + k];
        for (int j = 0; j < kDimension; ++j) sums[j] = Add(sums[j], factor, b.entries[k * kDimension + j]);
      }
      for (int j = 0; j < kDimension; ++j) c.entries[i * kDimension + j] = static_cast<T>(sums[j]);
    }
    return c;
  }

  WARPFOLD_LARGE_FN State CombineModulo(const State& a, const State& b) const requires IntegerElement<T> {
    // Twice as wide as an entry: holds a product, and the sum of two residues.
    using Double = std::conditional_t<sizeof(T) == 4, std::uint64_t, Uint128>;
    State c;
    WARPFOLD_KEEP_LOOP
    for (int i = 0; i < kDimension; ++i) {
      WARPFOLD_KEEP_LOOP
      for (int j = 0; j < kDimension; ++j) {
        Double sum = 0;
        WARPFOLD_KEEP_LOOP
        for (int k = 0; k < kDimension; ++k) {
          const Double product = Double{static_cast<Bits<T>>(a.entries[i * kDimension + k])} *
                                 static_cast<Bits<T>>(b.entries[k * kDimension + j]);
          sum = (sum + product % modulus) % modulus;
        }
        c.entries[i * kDimension + j] = static_cast<T>(sum);
      }
    }
    return c;
  }
};

}  // namespace warpfold::kernels
