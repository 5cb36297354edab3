// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which production kernels run on the simt backend: those of these families, over the textbook's element
// types and shapes. One of each kind is enough to test the kernels; the CPU backend reduces everything else,
// to the same bits.
#pragma once

#include "kernels/operators/affine_compose.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/matrix_product.h"
#include "kernels/operators/max_subarray_sum.h"
#include "kernels/operators/min.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels::simt {

// CMake generates a source for each of them.
using Families = TypeList<ScalarFamily<Sum>, ScalarFamily<Min>, ScalarFamily<MaxSubarraySum>,
                          MatrixFamily<MatrixProduct>, PairFamily<AffineCompose>>;

}  // namespace warpfold::kernels::simt
