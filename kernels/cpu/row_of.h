// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds the CPU's row of one family, in the namespace WARPFOLD_ISA. cmake generates one source file per
// family and instruction set that instantiates it (row.cc.in).
#pragma once

#include "kernels/cpu/row.h"
#include "kernels/cpu/subtree.h"
#include "kernels/operators/for_each.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <template <class, bool> class Family, class T, bool kIgnoreNan, int kType>
constexpr void FillScalar(Row& row) {
  if constexpr (kSupports<Family, T, kIgnoreNan>) {
    using Op = Family<T, kIgnoreNan>;
    if constexpr (std::is_same_v<ReducerOf<Op>, Op>) {
      static_assert(Op::kCommutative, "scalar operators that keep order are not built yet");
      row.scalar[kType][kIgnoreNan] = ReduceScalars<Op>;
      if constexpr (!requires { Op::kScalarsOnly; }) row.entrywise[kType][kIgnoreNan] = ReduceEntrywise<Op>;
    }
  }
}

template <template <class, bool> class Family>
constexpr Row MakeRow(ScalarFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    FillScalar<Family, T, false, kType>(row);
    FillScalar<Family, T, true, kType>(row);
    if constexpr (!FloatElement<T>) {
      row.scalar[kType][1] = row.scalar[kType][0];
      row.entrywise[kType][1] = row.entrywise[kType][0];
    }
  });
  return row;
}

template <template <class, int> class Family>
constexpr Row MakeRow(MatrixFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    ForEachDimension(
        [&]<int kDimension>() { row.square[kType][kDimension] = ReduceOrdered<Family<T, kDimension>>; });
  });
  return row;
}

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
