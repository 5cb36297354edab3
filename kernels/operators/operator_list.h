// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The list of operators. Their order is internal: the wire names operators by the proto enum.
#pragma once

#include "kernels/operators/all.h"
#include "kernels/operators/any.h"
#include "kernels/operators/argmax.h"
#include "kernels/operators/argmin.h"
#include "kernels/operators/bit_and.h"
#include "kernels/operators/bit_or.h"
#include "kernels/operators/bit_xor.h"
#include "kernels/operators/count_nonzero.h"
#include "kernels/operators/family.h"
#include "kernels/operators/matrix_product.h"
#include "kernels/operators/max.h"
#include "kernels/operators/mean.h"
#include "kernels/operators/min.h"
#include "kernels/operators/operator.h"
#include "kernels/operators/product.h"
#include "kernels/operators/sum.h"

namespace warpfold::kernels {

using OperatorList = TypeList<ScalarFamily<Sum>, ScalarFamily<Product>, ScalarFamily<Min>, ScalarFamily<Max>,
                              ScalarFamily<Argmin>, ScalarFamily<Argmax>, ScalarFamily<BitAnd>,
                              ScalarFamily<BitOr>, ScalarFamily<BitXor>, ScalarFamily<All>, ScalarFamily<Any>,
                              ScalarFamily<CountNonzero>, ScalarFamily<Mean>, MatrixFamily<MatrixProduct>>;

}  // namespace warpfold::kernels
