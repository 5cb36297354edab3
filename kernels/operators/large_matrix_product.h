// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The product of square matrices whose dimension is known only at run time: those with more than
// kMaxFixedDimension rows, for which an operator for each dimension would take long to compile and gain
// nothing.
#pragma once

#include <cstdint>

#include "kernels/operators/matrix_terms.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels {

template <RingElement T>
class LargeMatrixProduct {
 public:
  using Entry = T;
  static constexpr bool kCommutative = false;
  static constexpr bool kHasIdentity = true;
  static constexpr bool kTakesModulus = IntegerElement<T>;

  WARPFOLD_FN LargeMatrixProduct(const OperatorParameters& parameters, std::uint32_t entries)
      : entries_(entries),
        residues_(static_cast<Bits<T>>(parameters.modulus)),
        congruences_(static_cast<Bits<T>>(parameters.modulus)) {
    while (dimension_ * dimension_ < entries) ++dimension_;
  }

  WARPFOLD_FN std::uint32_t entries() const { return entries_; }

  WARPFOLD_FN T Lift(T x) const {
    if constexpr (IntegerElement<T>) {
      const auto bits = static_cast<Bits<T>>(x);
      if (residues_.any()) return Residue(kIsSigned<T> ? congruences_.OfSigned(bits) : bits);
    }
    return x;
  }
  // a = a x b.
  WARPFOLD_FN void Combine(T* a, const T* b) const {
    if constexpr (IntegerElement<T>) {
      if (residues_.any()) {
        if constexpr (sizeof(T) == 4) {
          MultiplyNarrow(a, b);
        } else {
          Multiply(CongruentTerms<Bits<T>>{congruences_}, a, b);
        }
        for (std::uint32_t i = 0; i < entries_; ++i) a[i] = Residue(static_cast<Bits<T>>(a[i]));
        return;
      }
    }
    Multiply(RingTerms<T>(), a, b);
  }
  T IdentityEntry(std::uint32_t entry) const { return entry % (dimension_ + 1) == 0 ? T{1} : T{0}; }
  static T Canonical(T entry) {
    if constexpr (FloatElement<T>) {
      return CanonicalNan(entry);
    } else {
      return entry;
    }
  }
  bool IsPossible(const T* state) const { return AreResidues(state, entries_, residues_.modulus()); }
  static Outcome FinishEntry(T entry) { return {.value = Scalar::Of(Wide<T>{entry})}; }

 private:
  WARPFOLD_FN T Residue(Bits<T> bits) const { return static_cast<T>(residues_.Of(bits)); }

  // Works row by row. Each entry of a row of a is multiplied by a row of b, which is contiguous, so that
  // compilers vectorise over columns. Entries are taken four at a time, so that sums are read and written
  // once for four terms. A row of the product needs no other row of a, and replaces this one.
  template <class Terms>
  WARPFOLD_FN void Multiply(const Terms& terms, T* a, const T* b) const {
    constexpr std::uint32_t kAtOnce = 4;
    typename Terms::Sum sums[kMaxMatrixDimension];
    for (T* row = a; row != a + entries_; row += dimension_) {
      for (std::uint32_t j = 0; j < dimension_; ++j) sums[j] = Terms::Empty();
      std::uint32_t k = 0;
      for (; k + kAtOnce <= dimension_; k += kAtOnce) {
        AddRows<kAtOnce>(terms, row + k, b + k * dimension_, sums);
      }
      for (; k < dimension_; ++k) AddRows<1>(terms, row + k, b + k * dimension_, sums);
      for (std::uint32_t j = 0; j < dimension_; ++j) row[j] = static_cast<T>(terms.Finish(sums[j]));
    }
  }

  // Adds the terms of kRows adjacent entries of a row of a, with as many rows of b.
  template <std::uint32_t kRows, class Terms>
  WARPFOLD_FN void AddRows(const Terms& terms, const T* a, const T* b, typename Terms::Sum* sums) const {
    using Factor = typename Terms::Entry;
    Factor left[kRows];
    for (std::uint32_t k = 0; k < kRows; ++k) left[k] = static_cast<Factor>(a[k]);
    for (std::uint32_t j = 0; j < dimension_; ++j) {
      auto sum = sums[j];
      for (std::uint32_t k = 0; k < kRows; ++k) {
        terms.Add(sum, left[k], static_cast<Factor>(b[k * dimension_ + j]));
      }
      sums[j] = sum;
    }
  }

  // As in CongruentTerms, the halves of products are summed separately, without carries, which compilers do
  // not vectorise.
  WARPFOLD_FN void MultiplyNarrow(T* a, const T* b) const requires(IntegerElement<T> && sizeof(T) == 4) {
    std::uint64_t low[kMaxMatrixDimension];
    std::uint64_t high[kMaxMatrixDimension];
    for (T* row = a; row != a + entries_; row += dimension_) {
      for (std::uint32_t j = 0; j < dimension_; ++j) low[j] = high[j] = 0;
      for (std::uint32_t k = 0; k < dimension_; ++k) {
        const std::uint64_t left = static_cast<std::uint32_t>(row[k]);
        const T* const other = b + k * dimension_;
        for (std::uint32_t j = 0; j < dimension_; ++j) {
          const std::uint64_t product = left * static_cast<std::uint32_t>(other[j]);
          low[j] += static_cast<std::uint32_t>(product);
          high[j] += product >> 32;
        }
      }
      for (std::uint32_t j = 0; j < dimension_; ++j) {
        const std::uint64_t upper = high[j] + (low[j] >> 32);
        const SumOfProducts<std::uint32_t> sum = {upper << 32 | static_cast<std::uint32_t>(low[j]),
                                                  static_cast<std::uint32_t>(upper >> 32)};
        row[j] = static_cast<T>(congruences_.Of(sum));
      }
    }
  }

  std::uint32_t entries_ = 0;
  std::uint32_t dimension_ = 1;
  // If there is a modulus, entries of states are 0 to modulus - 1.
  Residues<Bits<T>> residues_;
  Congruences<Bits<T>> congruences_;
};

}  // namespace warpfold::kernels
