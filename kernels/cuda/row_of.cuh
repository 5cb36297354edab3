// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cuda backend's row of one family. CMake generates one source file per family that instantiates it
// (kernels/row.in).
#pragma once

#include "kernels/cuda/ends.h"
#include "kernels/cuda/exact/exact_kernel.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/leaf/end_leaves.cuh"
#include "kernels/cuda/leaf/ordered_leaves.cuh"
#include "kernels/cuda/leaf/warp_leaves.cuh"
#include "kernels/cuda/matrix/entrywise_kernel.cuh"
#include "kernels/cuda/matrix/matrix_kernel.cuh"
#include "kernels/cuda/reduce_kernel.cuh"
#include "kernels/operators/rows.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::cuda {

template <class Op>
constexpr LaunchFunction EndLauncher() {
  if constexpr (Op::kSkipsElements) {
    return LaunchReduce<EndLeaves<Op>>;
  } else {
    return LaunchEnds<Op>;
  }
}

template <class Op>
constexpr LaunchFunction OrderedLauncher() {
  // A lane has registers for matrices of 2 x 2. The products of larger ones are shared among lanes.
  if constexpr (DimensionOf<Op>() > 2) {
    return LaunchMatrices<typename Op::Large::Entry>;
  } else if constexpr (EndOperator<Op>) {
    return EndLauncher<Op>();
  } else {
    return LaunchReduce<OrderedLeaves<Op>>;
  }
}

// Types whose states have the same bytes share a kernel.
struct Functions {
  static constexpr bool Serves(ElementType, bool) { return true; }
  static constexpr bool ServesWhole(ElementType, int) { return true; }
  template <class Op>
  static constexpr LaunchFunction kScalars = LaunchReduce<WarpLeaves<SameBytesOf<Op>>>;
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
  static constexpr Row kRow = MakeRow<Row, Functions>(Family());
  return kRow;
}

}  // namespace warpfold::kernels::cuda
