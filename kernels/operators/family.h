// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Names a family of operators, one for each element type, as a type: an entry of operator_list.h.
#pragma once

namespace warpfold::kernels {

// Operators over scalars: Family<T, kIgnoreNan>.
template <template <class, bool> class Family>
struct ScalarFamily {};

// Operators over square matrices: Family<T, kDimension>.
template <template <class, int> class Family>
struct MatrixFamily {};

// Operators over rows of two entries: Family<T>.
template <template <class> class Family>
struct PairFamily {};

}  // namespace warpfold::kernels
