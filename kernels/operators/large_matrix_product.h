// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The product of square matrices whose dimension is known only at run time: of more than kMaxFixedDimension
// rows, for which an operator for each dimension would take long to compile and gain nothing.
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

  WARPFOLD_FN LargeMatrixProduct(const OperatorParameters& parameters, std::uint32_t entries)
      : entries_(entries), residues_(static_cast<Bits<T>>(parameters.modulus)) {
    while (dimension_ * dimension_ < entries) ++dimension_;
  }

  std::uint32_t entries() const { return entries_; }

  WARPFOLD_FN T Lift(T x) const {
    if constexpr (IntegerElement<T>) {
      if (residues_.any()) return residues_.Of(x);
    }
    return x;
  }
  // a = a x b.
  WARPFOLD_FN void Combine(T* a, const T* b) const {
    if constexpr (IntegerElement<T>) {
      if (residues_.any()) return Multiply(ResidueTerms<Bits<T>>{residues_}, a, b);
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
  // Row by row: of a row of a, each entry in turn meets a row of b, which is contiguous. Nothing else of a is
  // needed for a row of the product, which takes its place.
  template <class Terms>
  WARPFOLD_FN void Multiply(const Terms& terms, T* a, const T* b) const {
    using Right = typename Terms::Entry;
    const std::uint32_t d = dimension_;
    typename Terms::Sum sums[kMaxMatrixDimension];
    for (T* row = a; row != a + entries_; row += d) {
      for (std::uint32_t j = 0; j < d; ++j) sums[j] = Terms::Empty();
      for (std::uint32_t k = 0; k < d; ++k) {
        const auto left = terms.Left(static_cast<Right>(row[k]));
        const T* const other = b + k * d;
        for (std::uint32_t j = 0; j < d; ++j) terms.Add(sums[j], left, static_cast<Right>(other[j]));
      }
      for (std::uint32_t j = 0; j < d; ++j) row[j] = static_cast<T>(terms.Finish(sums[j]));
    }
  }

  std::uint32_t entries_ = 0;
  std::uint32_t dimension_ = 1;
  Residues<Bits<T>> residues_;
};

}  // namespace warpfold::kernels
