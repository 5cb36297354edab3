// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// One of a backend's GPUs.
#pragma once

namespace warpfold::kernels::cuda {

struct Gpu {
  int ordinal = 0;  // CUDA's number for it
  int device = 0;   // its number among the backend's devices
};

}  // namespace warpfold::kernels::cuda
