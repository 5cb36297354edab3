// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// bit_xor: see bits.cuh.
#pragma once

#include "kernels/cuda/leaf/bits.cuh"
#include "kernels/cuda/leaf/lane_leaf.cuh"
#include "kernels/operators/bit_xor.h"

namespace warpfold::kernels::cuda {

template <class T, bool kIgnoreNan>
struct LaneLeaf<BitXor<T, kIgnoreNan>> : BitsLaneLeaf<BitXor, T> {};

}  // namespace warpfold::kernels::cuda
