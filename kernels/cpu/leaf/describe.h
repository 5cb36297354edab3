// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// describe takes sum, variance and minmax one after the other: its states are theirs, side by side, and after
// the first of them the leaf lies in the cache.
#pragma once

#include "kernels/cpu/leaf/sum.h"
#include "kernels/cpu/leaf/variance.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/operators/describe.h"
#include "kernels/operators/minmax.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <class T, bool kIgnoreNan>
struct ScalarLeaf<Describe<T, kIgnoreNan>> {
  using Op = Describe<T, kIgnoreNan>;

  static typename Op::LeafState Reduce(const Op&, const std::byte* data, std::uint64_t count) {
    const Variance<T, kIgnoreNan> variance;
    const typename Op::Extremes range;
    const auto spread = ScalarLeaf<Variance<T, kIgnoreNan>>::Reduce(variance, data, count);
    const auto extrema = ScalarLeaf<typename Op::Extremes>::Reduce(range, data, count);
    if constexpr (IntegerElement<T>) {
      return {spread, extrema};
    } else {
      const typename Op::Sums sums;
      return {ScalarLeaf<typename Op::Sums>::Reduce(sums, data, count), spread, extrema};
    }
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
