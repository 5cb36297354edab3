// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How an entry of a matrix product is summed, term by term, from the first to the last: in the ring of the
// element type, or modulo a modulus. All implementations of the product share this.
#pragma once

#include <type_traits>

#include "kernels/operators/element_types.h"
#include "kernels/operators/residue.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// Integers wrap as unsigned ones.
template <RingElement T>
using RingEntry = std::conditional_t<FloatElement<T>, T, Bits<T>>;

template <RingElement T>
struct RingTerms {
  using Entry = RingEntry<T>;
  using Sum = Entry;

  // Sums of floats begin with -0.0: fma(a, b, -0.0) is the rounded product of a and b, to the bit.
  static WARPFOLD_FN Sum Empty() { return FloatElement<T> ? static_cast<Sum>(-0.0) : Sum{0}; }
  WARPFOLD_FN Sum First(Entry left, Entry right) const {
    Sum sum = Empty();
    Add(sum, left, right);
    return sum;
  }
  WARPFOLD_FN void Add(Sum& sum, Entry left, Entry right) const {
    if constexpr (FloatElement<T>) {
      sum = FusedMultiplyAdd(left, right, sum);
    } else {
      sum += left * right;
    }
  }
  template <int kMostTerms = kMaxMatrixDimension>
  WARPFOLD_FN Entry Finish(const Sum& sum) const {
    return sum;
  }
};

// Adds products of any Words; the results are any Words that are congruent to the sums.
template <class Word>
struct CongruentTerms {
  using Entry = Word;
  using Sum = SumOfProducts<Word>;

  Congruences<Word> congruences;

  static WARPFOLD_FN Sum Empty() { return {}; }
  WARPFOLD_FN Sum First(Entry left, Entry right) const { return Sum::Of(left, right); }
  WARPFOLD_FN void Add(Sum& sum, Entry left, Entry right) const { sum.Add(left, right); }
  template <int kMostTerms = kMaxMatrixDimension>
  WARPFOLD_FN Entry Finish(const Sum& sum) const {
    return congruences.template Of<kMostTerms>(sum);
  }
};
static_assert(kMaxMatrixDimension <= Congruences<std::uint32_t>::kMaxTerms);

}  // namespace warpfold::kernels
