// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/devices.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/slot_memory.h"
#include "kernels/simt/simt_backend.h"
#if defined(WARPFOLD_HAVE_CUDA)
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#endif

namespace warpfold::kernels {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(std::span<const int> ordinals,
                                                  const BackendOptions& options) {
#if defined(WARPFOLD_HAVE_CUDA)
  return cuda::MakeCudaBackend(ordinals, options);
#else
  static_cast<void>(ordinals);
  static_cast<void>(options);
  return absl::NotFoundError("this build has no CUDA");
#endif
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseGpus(absl::string_view device) {
  std::vector<int> ordinals;
  if (device == "cuda:all") return ordinals;
  for (absl::string_view name : absl::StrSplit(device, ',')) {
    int ordinal = 0;
    if (!absl::ConsumePrefix(&name, "cuda:") || !absl::SimpleAtoi(name, &ordinal) || ordinal < 0) {
      return absl::InvalidArgumentError(
          "must be auto, cpu, cuda:N, cuda:N,cuda:M, cuda:all, simt or simt:SEED");
    }
    if (std::find(ordinals.begin(), ordinals.end(), ordinal) != ordinals.end()) {
      return absl::InvalidArgumentError(absl::StrCat("names cuda:", ordinal, " twice"));
    }
    ordinals.push_back(ordinal);
  }
  return ordinals;
}

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
    absl::StatusOr<std::unique_ptr<Backend>> gpu = MakeCuda(std::array{0}, options);
    if (!absl::IsNotFound(gpu.status())) return gpu;
    *note = absl::StrCat("no GPU, taking the CPU: ", gpu.status().message());
    return cpu::MakeCpuBackend(options);
  }
  const absl::StatusOr<std::vector<int>> ordinals = ParseGpus(device);
  if (!ordinals.ok()) return ordinals.status();
  return MakeCuda(*ordinals, options);
}

std::uint64_t HostBytesOfSlots(absl::string_view device, const BackendOptions& options) {
  const auto slots = static_cast<std::uint64_t>(options.slots);
  if (ParseGpus(device).ok()) {
    const std::size_t slot_bytes = options.slot_bytes > 0 ? options.slot_bytes : cuda::kDefaultSlotBytes;
    return slots * cuda::MemoryOfSlot(slot_bytes).host_bytes;
  }
  const bool is_simt = absl::StartsWith(device, "simt");
  return (is_simt ? std::min<std::uint64_t>(slots, simt::kMaxSlots) : slots) *
         cpu::HostBytesOfSlot(options.slot_bytes);
}

absl::Status ProbeMemory(absl::string_view device, const ProcessMemory& memory) {
  const absl::StatusOr<std::vector<int>> ordinals = ParseGpus(device);
  if (!ordinals.ok()) return ordinals.status();
#if defined(WARPFOLD_HAVE_CUDA)
  if (ordinals->empty()) return absl::InvalidArgumentError("the GPUs must be named");
  std::vector<cuda::Gpu> gpus;
  for (const int ordinal : *ordinals) {
    gpus.push_back({.ordinal = ordinal, .device = static_cast<int>(gpus.size())});
  }
  return cuda::ProbeProcessMemory(gpus, memory);
#else
  static_cast<void>(memory);
  return absl::NotFoundError("this build has no CUDA");
#endif
}

}  // namespace warpfold::kernels
