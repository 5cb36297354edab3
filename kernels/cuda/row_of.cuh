// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cuda backend's row of one family. cmake generates one source file per family that instantiates it
// (row.cu.in).
#pragma once

#include "kernels/cuda/end_leaves.cuh"
#include "kernels/cuda/entrywise_kernel.cuh"
#include "kernels/cuda/exact_kernel.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ordered_leaves.cuh"
#include "kernels/cuda/reduce_kernel.cuh"
#include "kernels/cuda/scalar_leaves.cuh"
#include "kernels/operators/make_row.h"

namespace warpfold::kernels::cuda {

template <class Op>
struct LeavesInOrder {
  using type = OrderedLeaves<Op>;
};
template <EndOperator Op>
struct LeavesInOrder<Op> {
  using type = EndLeaves<Op>;
};

struct Loops {
  template <class Op>
  static constexpr LaunchFunction kScalars = LaunchReduce<ScalarLeaves<Op>>;
  template <class Op>
  static constexpr LaunchFunction kExact = LaunchExact<Op>;
  template <class Op>
  static constexpr LaunchFunction kEntrywise = LaunchEntrywise<Op>;
  template <class Op>
  static constexpr LaunchFunction kOrdered = LaunchReduce<typename LeavesInOrder<Op>::type>;
};

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow<Row, Loops>(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cuda
