// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_status.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "proto/error_reasons.h"

namespace warpfold::kernels::cuda {
namespace {

// The errors with which launches, copies and attributes of kernels are refused, and after which CUDA remains
// usable (CUDA Runtime API 13.0, cudaError).
constexpr cudaError_t kRefusals[] = {
    cudaErrorInvalidValue,               // 1
    cudaErrorMemoryAllocation,           // 2
    cudaErrorInvalidConfiguration,       // 9
    cudaErrorInvalidDeviceFunction,      // 98
    cudaErrorNoKernelImageForDevice,     // 209
    cudaErrorLaunchOutOfResources,       // 701
    cudaErrorCooperativeLaunchTooLarge,  // 720
    cudaErrorNotSupported,               // 801
};

absl::Status StatusFor(cudaError_t error, const char* what, absl::StatusCode code, const char* why) {
  // Without the arguments, which may name addresses.
  const absl::string_view text = what;
  const absl::string_view call = text.substr(0, text.find('('));
  return Error(
      code, why,
      absl::StrCat("CUDA error ", static_cast<int>(error), " (", cudaGetErrorName(error), ") in ", call),
      {{"cuda_error", absl::StrCat(static_cast<int>(error))}});
}

}  // namespace

bool IsRefusal(cudaError_t error) {
  return std::find(std::begin(kRefusals), std::end(kRefusals), error) != std::end(kRefusals);
}

absl::Status StatusOf(cudaError_t error, const char* what) {
  if (!IsRefusal(error)) return LossOf(error, what);
  // Otherwise the next launch, which asks for the last error, would find this one.
  static_cast<void>(cudaGetLastError());
  return StatusFor(error, what, absl::StatusCode::kInternal, reason::kLaunchRefused);
}

absl::Status LossOf(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return StatusFor(error, what, absl::StatusCode::kUnavailable, reason::kDeviceLost);
}

bool IsDeviceLost(const absl::Status& status) { return ErrorReason(status) == reason::kDeviceLost; }

}  // namespace warpfold::kernels::cuda
