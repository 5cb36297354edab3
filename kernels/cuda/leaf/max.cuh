// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// max: see extrema.cuh.
#pragma once

#include "kernels/cuda/leaf/extrema.cuh"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/operators/max.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<Max<T, kIgnoreNan>> : ExtremumLaneLeaf<Max<T, kIgnoreNan>> {};

}  // namespace warpfold::kernels::cuda
