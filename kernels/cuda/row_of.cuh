// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Builds the row of one family. cmake generates one source file per family that instantiates it (row.cu.in).
#pragma once

#include "kernels/cuda/entrywise_kernel.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ordered_leaves.cuh"
#include "kernels/cuda/reduce_kernel.cuh"
#include "kernels/cuda/scalar_leaves.cuh"
#include "kernels/operators/for_each.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cuda {

template <template <class, bool> class Family, class T, bool kIgnoreNan, int kType>
void FillScalar(Row& row) {
  if constexpr (kSupports<Family, T, kIgnoreNan>) {
    using Op = Family<T, kIgnoreNan>;
    if constexpr (std::is_same_v<ReducerOf<Op>, Op>) {
      row.scalar[kType][kIgnoreNan] = LaunchReduce<ScalarLeaves<Op>>;
      if constexpr (!requires { Op::kScalarsOnly; }) row.entrywise[kType][kIgnoreNan] = LaunchEntrywise<Op>;
    }
  }
}

template <template <class, bool> class Family>
Row MakeRow(ScalarFamily<Family>) {
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
Row MakeRow(MatrixFamily<Family>) {
  Row row;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    ForEachDimension([&]<int kDimension>() {
      row.square[kType][kDimension] = LaunchReduce<OrderedLeaves<Family<T, kDimension>>>;
    });
  });
  return row;
}

template <class Family>
const Row& RowOf() {
  static const Row row = MakeRow(Family());
  return row;
}

}  // namespace warpfold::kernels::cuda
