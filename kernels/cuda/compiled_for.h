// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernels in this executable were compiled for.
#pragma once

#include <cuda_runtime.h>

namespace warpfold::kernels::cuda {

// The virtual architecture, times ten, of the kernels that the current device runs: 90 for compute_90, also
// if the device is newer and the driver has compiled them for it. An error if there are none for this device.
cudaError_t CompiledArchitecture(int* architecture);

}  // namespace warpfold::kernels::cuda
