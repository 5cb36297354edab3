// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/leaf/arg_extrema.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/operators/argmin.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <class T, bool kIgnoreNan>
struct ScalarLeaf<Argmin<T, kIgnoreNan>> : ArgExtremumLeaf<T, kIgnoreNan, /*kMax=*/false> {};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
