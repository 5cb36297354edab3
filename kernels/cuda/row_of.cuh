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
#include "kernels/cuda/matrix_kernel.cuh"
#include "kernels/cuda/ordered_leaves.cuh"
#include "kernels/cuda/reduce_kernel.cuh"
#include "kernels/cuda/scalar_leaves.cuh"
#include "kernels/operators/make_row.h"

namespace warpfold::kernels::cuda {

// A lane has registers for matrices of 2 x 2; products of larger ones are shared among lanes.
template <class Op>
constexpr bool SharesProducts() {
  if constexpr (requires { Op::kRows; }) {
    return Op::kRows > 2;
  } else {
    return false;
  }
}

template <class Op>
constexpr LaunchFunction OrderedLauncher() {
  if constexpr (SharesProducts<Op>()) {
    return LaunchMatrices<typename Op::Large::Entry>;
  } else if constexpr (EndOperator<Op>) {
    return LaunchReduce<EndLeaves<Op>>;
  } else {
    return LaunchReduce<OrderedLeaves<Op>>;
  }
}

// Types whose states have the same bytes share a kernel.
struct Loops {
  template <class Op>
  static constexpr LaunchFunction kScalars = LaunchReduce<ScalarLeaves<SameBytesOf<Op>>>;
  template <class Op>
  static constexpr LaunchFunction kExact = LaunchExact<Op>;
  template <class Op>
  static constexpr LaunchFunction kEntrywise = LaunchEntrywise<SameBytesOf<Op>>;
  template <class Op>
  static constexpr LaunchFunction kOrdered = OrderedLauncher<SameBytesOf<Op>>();
  template <class Op>
  static constexpr LaunchFunction kLarge = LaunchMatrices<typename Op::Entry>;
};

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow<Row, Loops>(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cuda
