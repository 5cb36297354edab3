// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/devices.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/cpu_backend.h"
#if defined(WARPFOLD_HAVE_CUDA)
#include "kernels/cuda/cuda_backend.h"
#endif

namespace warpfold::kernels {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(int ordinal, const BackendOptions& options) {
#if defined(WARPFOLD_HAVE_CUDA)
  return cuda::MakeCudaBackend(ordinal, options);
#else
  static_cast<void>(ordinal);
  static_cast<void>(options);
  return absl::NotFoundError("this build has no CUDA");
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view device, const BackendOptions& options,
                                                     std::string* note) {
  note->clear();
  if (device == "cpu") return cpu::MakeCpuBackend(options);
  if (device == "auto") {
    absl::StatusOr<std::unique_ptr<Backend>> gpu = MakeCuda(0, options);
    if (!absl::IsNotFound(gpu.status())) return gpu;
    *note = absl::StrCat("no GPU, taking the CPU: ", gpu.status().message());
    return cpu::MakeCpuBackend(options);
  }
  absl::string_view number = device;
  int ordinal = 0;
  if (!absl::ConsumePrefix(&number, "cuda:") || !absl::SimpleAtoi(number, &ordinal) || ordinal < 0) {
    return absl::InvalidArgumentError("the device must be auto, cpu or cuda:N");
  }
  return MakeCuda(ordinal, options);
}

}  // namespace warpfold::kernels
