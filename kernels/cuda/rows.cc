// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cuda {

// Sources that CMake generates from kernels/row.in define it, one for each family.
template <class Family>
const Row& RowOf();

std::span<const Row* const> Rows() {
  static const auto rows = AllRows<Row>(OperatorList(), []<class Family>() { return &RowOf<Family>(); });
  return rows;
}

}  // namespace warpfold::kernels::cuda
