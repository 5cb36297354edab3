// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The simt backend's row of one family, with the same functions as the cuda backend's
// (kernels/cuda/row_of.cuh). CMake generates one source file per family that instantiates it
// (kernels/row.in).
#pragma once

#include "kernels/algorithm.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/leaf/ordered_leaves.cuh"
#include "kernels/cuda/leaf/warp_leaves.cuh"
#include "kernels/cuda/matrix/entrywise_kernel.cuh"
#include "kernels/cuda/reduce_kernel.cuh"
#include "kernels/operators/rows.h"
#include "kernels/operators/traits.h"

namespace warpfold::kernels::simt {

// Types whose states have the same bytes share a kernel, as on a GPU.
struct Functions {
  static constexpr bool Serves(ElementType type, bool ignore_nan) {
    return !ignore_nan && TextbookServesType(type);
  }
  // Pairs have dimension 0. Matrices have the size that the textbook uses.
  static constexpr bool ServesWhole(ElementType type, int dimension) {
    return (dimension == 0 || dimension == static_cast<int>(kTextbookRows)) && TextbookServesType(type);
  }
  template <class Op>
  static constexpr LaunchFunction kScalars = LaunchReduce<WarpLeaves<SameBytesOf<Op>>>;
  template <class Op>
  static constexpr LaunchFunction kEntrywise = LaunchEntrywise<SameBytesOf<Op>>;
  template <class Op>
  static constexpr LaunchFunction kOrdered = LaunchReduce<OrderedLeaves<SameBytesOf<Op>>>;
  template <class Op>
  static constexpr LaunchFunction kLarge = nullptr;
};

template <class Family>
const Row& RowOf() {
  static constexpr Row kRow = MakeRow<Row, Functions>(Family());
  return kRow;
}

}  // namespace warpfold::kernels::simt
