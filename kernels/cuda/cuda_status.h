// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The one way in which CUDA calls are checked.
#pragma once

#include <cuda_runtime.h>

#include "absl/status/status.h"

namespace warpfold::kernels::cuda {

// OK, or UNAVAILABLE (DEVICE_LOST) with the error's number and name. `what` says what was being done.
//
// Every error counts as loss of the device: most of those that a kernel or a copy can raise after start
// (illegal address, ECC, launch timeout, ...) leave the context unusable until the process ends, and
// an unknown one must not be waited out.
absl::Status StatusOf(cudaError_t error, const char* what);

// Whether StatusOf made this error.
bool IsDeviceError(const absl::Status& status);

}  // namespace warpfold::kernels::cuda

// Returns from the function with the status of a CUDA call that failed.
#define WARPFOLD_RETURN_IF_CUDA_ERROR(call)                                                     \
  do {                                                                                          \
    if (absl::Status status = ::warpfold::kernels::cuda::StatusOf(call, #call); !status.ok()) { \
      return status;                                                                            \
    }                                                                                           \
  } while (false)
