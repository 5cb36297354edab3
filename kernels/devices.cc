// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/devices.h"

#include <cstdint>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/simt/simt_backend.h"
#if defined(WARPFOLD_HAVE_CUDA)
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
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

// The number of "cuda:N".
std::optional<int> OrdinalOf(absl::string_view device) {
  int ordinal = 0;
  if (!absl::ConsumePrefix(&device, "cuda:") || !absl::SimpleAtoi(device, &ordinal) || ordinal < 0) {
    return std::nullopt;
  }
  return ordinal;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view device, const BackendOptions& options,
                                                     std::string* note) {
  note->clear();
  if (device == "cpu") return cpu::MakeCpuBackend(options);
  std::uint64_t seed = 0;
  absl::string_view seed_text = device;
  if (device == "simt" || (absl::ConsumePrefix(&seed_text, "simt:") && absl::SimpleAtoi(seed_text, &seed))) {
    return simt::MakeSimtBackend(seed, options);
  }
  if (device == "auto") {
    absl::StatusOr<std::unique_ptr<Backend>> gpu = MakeCuda(0, options);
    if (!absl::IsNotFound(gpu.status())) return gpu;
    *note = absl::StrCat("no GPU, taking the CPU: ", gpu.status().message());
    return cpu::MakeCpuBackend(options);
  }
  const std::optional<int> ordinal = OrdinalOf(device);
  if (!ordinal) return absl::InvalidArgumentError("the device must be auto, cpu, cuda:N or simt:SEED");
  return MakeCuda(*ordinal, options);
}

absl::Status ProbeMemory(absl::string_view device, const ProcessMemory& memory) {
  const std::optional<int> ordinal = OrdinalOf(device);
  if (!ordinal) return absl::InvalidArgumentError("the device must be cuda:N");
#if defined(WARPFOLD_HAVE_CUDA)
  return cuda::ProbeProcessMemory(*ordinal, memory);
#else
  static_cast<void>(memory);
  return absl::NotFoundError("this build has no CUDA");
#endif
}

}  // namespace warpfold::kernels
