// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/operators/rows.h"

#include "kernels/cuda/segments/segment_plan.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cuda {

// Sources that CMake generates from kernels/row.in define it, one for each family.
template <class Family>
const SegmentFunctionRow& SegmentRowOf();

std::span<const SegmentFunctionRow* const> SegmentRows() {
  static const auto rows =
      AllRows<SegmentFunctionRow>(OperatorList(), []<class Family>() { return &SegmentRowOf<Family>(); });
  return rows;
}

}  // namespace warpfold::kernels::cuda
