// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// argmin: see arg_extrema.cuh.
#pragma once

#include "kernels/cuda/leaf/arg_extrema.cuh"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/operators/argmin.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Argmin<T, kIgnoreNan>> : ArgExtremumLaneLeaf<Argmin<T, kIgnoreNan>> {};

}  // namespace warpfold::kernels::cuda
