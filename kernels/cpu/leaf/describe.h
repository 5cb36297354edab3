// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// describe runs variance, minmax and, for floats, sum one after the other: its states are theirs, side by
// side, and after the first of them the leaf is in the cache. For integers, the state of variance contains
// the sum.
#pragma once

#include "kernels/cpu/leaf/sum.h"
#include "kernels/cpu/leaf/variance.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/operators/describe.h"
#include "kernels/operators/minmax.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <IntegerElement T>
struct ScalarLeaf<Describe<T, false>> {
  using Op = Describe<T, false>;

  static typename Op::LeafState Reduce(const Op&, const std::byte* data, std::uint64_t count) {
    const auto spread = ScalarLeaf<Variance<T, false>>::Reduce(Variance<T, false>(), data, count);
    const auto extrema = ScalarLeaf<typename Op::Extremes>::Reduce(typename Op::Extremes(), data, count);
    return {spread, extrema};
  }
};

template <FloatElement T, bool kIgnoreNan>
struct ScalarLeaf<Describe<T, kIgnoreNan>> {
  using Op = Describe<T, kIgnoreNan>;

  static typename Op::LeafState Reduce(const Op&, const std::byte* data, std::uint64_t count) {
    const Variance<T, kIgnoreNan> variance;
    const auto spread = ScalarLeaf<Variance<T, kIgnoreNan>>::Reduce(variance, data, count);
    const auto extrema = ScalarLeaf<typename Op::Extremes>::Reduce(typename Op::Extremes(), data, count);
    return {ScalarLeaf<typename Op::Sums>::Reduce(typename Op::Sums(), data, count), spread, extrema};
  }
};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
