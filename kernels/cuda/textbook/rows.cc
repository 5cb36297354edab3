// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/textbook/rows.h"

#include "kernels/operators/family.h"
#include "kernels/operators/matrix_product.h"
#include "kernels/operators/max.h"
#include "kernels/operators/min.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels::cuda::textbook {

// Defined by the generated sources, one per family.
template <class Family>
const Row& RowOf();

const Row& RowNamed(std::string_view name) {
  if (name == kTextbookMatrixOperator) return RowOf<MatrixFamily<MatrixProduct>>();
  if (name == "min") return RowOf<ScalarFamily<Min>>();
  if (name == "max") return RowOf<ScalarFamily<Max>>();
  return RowOf<ScalarFamily<Sum>>();
}

}  // namespace warpfold::kernels::cuda::textbook
