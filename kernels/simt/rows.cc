// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/rows.h"

#include "kernels/cuda/launch.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::simt {

// Sources that CMake generates from kernels/row.in define it, one for each family that is served.
template <class Family>
const Row& RowOf();

std::span<const Row* const> Rows() {
  static const auto rows =
      RowsOfSome<Row>(OperatorList(), Families(), []<class Family>() { return &RowOf<Family>(); });
  return rows;
}

}  // namespace warpfold::kernels::simt
