// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/textbook/launch.h"
#include "kernels/operators/operator_list.h"

namespace warpfold::kernels::cuda::textbook {

// The families that the textbook serves (algorithm.h). CMake generates a source for each of them.
using Families =
    TypeList<ScalarFamily<Sum>, ScalarFamily<Min>, ScalarFamily<Max>, MatrixFamily<MatrixProduct>>;

// Sources that CMake generates from kernels/row.in define it, one for each family.
template <class Family>
const Row& RowOf();

std::span<const Row* const> Rows() {
  static const auto rows =
      RowsOfSome<Row>(OperatorList(), Families(), []<class Family>() { return &RowOf<Family>(); });
  return rows;
}

}  // namespace warpfold::kernels::cuda::textbook
