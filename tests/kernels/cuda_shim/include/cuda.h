// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA driver's interface that kernels/cuda uses, like cuda_runtime.h beside it.
#pragma once

#include <cstdint>

namespace warpfold::kernels::shim {

enum CUresult : int { CUDA_SUCCESS = 0 };
using CUdeviceptr = std::uintptr_t;

}  // namespace warpfold::kernels::shim
