// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of all operators, in the order of the operator list, of the kernels over ranges. Those over
// segments are in segments/rows.h: this header also serves the executor on the host, which has no
// CUDA headers.
#pragma once

#include <span>

#include "kernels/cuda/launch.h"

namespace warpfold::kernels::cuda {

std::span<const Row* const> Rows();

}  // namespace warpfold::kernels::cuda
