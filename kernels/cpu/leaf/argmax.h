// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/leaf/arg_extrema.h"
#include "kernels/cpu/scalar_leaf.h"
#include "kernels/operators/argmax.h"

namespace warpfold::kernels::cpu::WARPFOLD_ISA {

template <class T, bool kIgnoreNan>
struct ScalarLeaf<Argmax<T, kIgnoreNan>> : ArgExtremumLeaf<T, kIgnoreNan, /*kMax=*/true> {};

}  // namespace warpfold::kernels::cpu::WARPFOLD_ISA
