// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The list of operators. Their order is internal: the wire names operators by the proto enum. CMake reads it,
// too, and generates a source for each entry (kernels/CMakeLists.txt).
#pragma once

#include "kernels/operators/affine_compose.h"
#include "kernels/operators/all.h"
#include "kernels/operators/any.h"
#include "kernels/operators/argmax.h"
#include "kernels/operators/argmin.h"
#include "kernels/operators/bit_and.h"
#include "kernels/operators/bit_or.h"
#include "kernels/operators/bit_xor.h"
#include "kernels/operators/count_nonzero.h"
#include "kernels/operators/describe.h"
#include "kernels/operators/exact_sum.h"
#include "kernels/operators/first.h"
#include "kernels/operators/l1_norm.h"
#include "kernels/operators/l2_norm.h"
#include "kernels/operators/last.h"
#include "kernels/operators/lists.h"
#include "kernels/operators/logsumexp.h"
#include "kernels/operators/matrix_product.h"
#include "kernels/operators/max.h"
#include "kernels/operators/max_abs.h"
#include "kernels/operators/max_subarray_sum.h"
#include "kernels/operators/mean.h"
#include "kernels/operators/min.h"
#include "kernels/operators/minmax.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/product.h"
#include "kernels/operators/stddev.h"
#include "kernels/operators/sum.h"
#include "kernels/operators/sum_of_squares.h"
#include "kernels/operators/variance.h"

namespace warpfold::kernels {

using OperatorList =
    TypeList<ScalarFamily<Sum>, ScalarFamily<Product>, ScalarFamily<Min>, ScalarFamily<Max>,
             ScalarFamily<Argmin>, ScalarFamily<Argmax>, ScalarFamily<BitAnd>, ScalarFamily<BitOr>,
             ScalarFamily<BitXor>, ScalarFamily<All>, ScalarFamily<Any>, ScalarFamily<CountNonzero>,
             ScalarFamily<Mean>, MatrixFamily<MatrixProduct>, ScalarFamily<SumOfSquares>,
             ScalarFamily<L1Norm>, ScalarFamily<L2Norm>, ScalarFamily<MaxAbs>, ScalarFamily<Variance>,
             ScalarFamily<Stddev>, ScalarFamily<Minmax>, ScalarFamily<Describe>, ScalarFamily<Logsumexp>,
             ScalarFamily<First>, ScalarFamily<Last>, ScalarFamily<MaxSubarraySum>, PairFamily<AffineCompose>,
             ScalarFamily<ExactSum>>;

}  // namespace warpfold::kernels
