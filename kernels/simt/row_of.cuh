// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The simt backend's row of one family, of the same functions as the cuda backend's
// (kernels/cuda/row_of.cuh). CMake generates one source file per family that instantiates it (row.cc.in).
#pragma once

#include "kernels/algorithm.h"
#include "kernels/cuda/entrywise_kernel.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ordered_leaves.cuh"
#include "kernels/cuda/reduce_kernel.cuh"
#include "kernels/cuda/scalar_leaves.cuh"
#include "kernels/operators/family.h"
#include "kernels/operators/for_each.h"
#include "kernels/operators/operator.h"

namespace warpfold::kernels::simt {

// Calls f.operator()<T, type>() for each element type that the textbook has.
template <class F>
constexpr void ForEachTextbookType(F f) {
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    constexpr bool kIsServed = [] {
      bool is_served = false;
      for (const ElementType type : kTextbookTypes) is_served = is_served || kType == static_cast<int>(type);
      return is_served;
    }();
    if constexpr (kIsServed) f.template operator()<T, kType>();
  });
}

template <template <class, bool> class Family>
constexpr Row MakeRow(ScalarFamily<Family>) {
  Row row;
  ForEachTextbookType([&]<class T, int kType>() {
    using Op = SameBytesOf<Family<T, false>>;
    if constexpr (Op::kCommutative) {
      row.scalar[kType][0] = LaunchReduce<ScalarLeaves<Op>>;
      row.entrywise[kType][0] = LaunchEntrywise<Op>;
    } else {
      row.scalar[kType][0] = LaunchReduce<OrderedLeaves<Op>>;
    }
    if constexpr (!FloatElement<T>) {  // integers have no NaN to ignore
      row.scalar[kType][1] = row.scalar[kType][0];
      row.entrywise[kType][1] = row.entrywise[kType][0];
    }
  });
  return row;
}

template <template <class> class Family>
constexpr Row MakeRow(PairFamily<Family>) {
  Row row;
  ForEachTextbookType([&]<class T, int kType>() {
    if constexpr (kSupportsPair<Family, T>) {
      row.whole[kType][kPairIndex] = LaunchReduce<OrderedLeaves<SameBytesOf<Family<T>>>>;
    }
  });
  return row;
}

template <template <class, int> class Family>
constexpr Row MakeRow(MatrixFamily<Family>) {
  constexpr int kRows = static_cast<int>(kTextbookRows);
  Row row;
  ForEachTextbookType([&]<class T, int kType>() {
    row.whole[kType][kRows] = LaunchReduce<OrderedLeaves<SameBytesOf<Family<T, kRows>>>>;
  });
  return row;
}

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow(Family());
  return kRow;
}

}  // namespace warpfold::kernels::simt
