// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The only way in which CUDA calls are checked.
#pragma once

#include "absl/status/status.h"
#include "kernels/cuda/vocabulary.h"

namespace warpfold::kernels::cuda {

// Whether the error leaves the device usable: CUDA refused one call, for example a launch, because of what it
// asked for. All other errors count as loss of the device, including unknown ones: most of what a kernel or a
// copy can raise after start (illegal address, ECC, launch timeout, ...) leaves the context unusable until
// the process ends, and an unknown error must not be waited out.
bool IsRefusal(cudaError_t error);

// OK; INTERNAL (LAUNCH_REFUSED) for a refusal, which is then no longer CUDA's last error; otherwise
// UNAVAILABLE (DEVICE_LOST). Both have the error's number and name. `what` says what was being done.
absl::Status StatusOf(cudaError_t error, const char* what);

// OK, or UNAVAILABLE (DEVICE_LOST) for any error. For calls without whose success it is unknown what the
// device is still doing.
absl::Status LossOf(cudaError_t error, const char* what);

// Whether the status says that the device is lost (DEVICE_LOST).
bool IsDeviceLost(const absl::Status& status);

}  // namespace warpfold::kernels::cuda

// Returns from the function with the status of a CUDA call that failed.
#define WARPFOLD_RETURN_IF_CUDA_ERROR(call)                                                     \
  do {                                                                                          \
    if (absl::Status status = ::warpfold::kernels::cuda::StatusOf(call, #call); !status.ok()) { \
      return status;                                                                            \
    }                                                                                           \
  } while (false)
