// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tells whether this executable's kernels run on a device at all.
#pragma once

#include "kernels/cuda/vocabulary.h"

namespace warpfold::kernels::cuda {

// An error if there are no kernels for the current device: neither its machine code nor PTX that its driver
// can compile.
cudaError_t FindKernels();

}  // namespace warpfold::kernels::cuda
