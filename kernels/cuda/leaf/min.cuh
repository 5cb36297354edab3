// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// min: see extrema.cuh.
#pragma once

#include "kernels/cuda/leaf/extrema.cuh"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/operators/min.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Min<T, kIgnoreNan>> : ExtremumLaneLeaf<Min<T, kIgnoreNan>> {};

}  // namespace warpfold::kernels::cuda
