// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace warpfold::kernels::cuda {

absl::Status StatusOf(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  // Up to the arguments, which may name addresses.
  const absl::string_view text = what;
  const absl::string_view call = text.substr(0, text.find('('));
  return Error(
      absl::StatusCode::kUnavailable, "DEVICE_LOST",
      absl::StrCat("CUDA error ", static_cast<int>(error), " (", cudaGetErrorName(error), ") in ", call),
      {{"cuda_error", absl::StrCat(static_cast<int>(error))}});
}

bool IsDeviceError(const absl::Status& status) { return ErrorReason(status) == "DEVICE_LOST"; }

}  // namespace warpfold::kernels::cuda
