// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// argmax: see arg_extrema.cuh.
#pragma once

#include "kernels/cuda/leaf/arg_extrema.cuh"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/operators/argmax.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Argmax<T, kIgnoreNan>> : ArgExtremumLaneLeaf<Argmax<T, kIgnoreNan>> {};

}  // namespace warpfold::kernels::cuda
