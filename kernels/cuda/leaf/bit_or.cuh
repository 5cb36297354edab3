// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// bit_or: see bits.cuh.
#pragma once

#include "kernels/cuda/leaf/bits.cuh"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/operators/bit_or.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<BitOr<T, kIgnoreNan>> : BitsLaneLeaf<BitOr, T> {};

}  // namespace warpfold::kernels::cuda
