// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that a backend's GPUs read: registered, opened or allocated. Each Memory gives its memory back when
// it is destroyed, unless the device has failed: then nothing touches CUDA anymore.
//
// Threads: as kernels/memory.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/gpu.h"
#include "kernels/memory.h"

namespace warpfold::kernels::cuda {

// These are Backend's functions (kernels/backend.h). `gpus` are all of the backend's, at least one. `fault`
// must outlive the memory.
absl::StatusOr<std::unique_ptr<Memory>> BeginRegisterHost(Gpu gpu, std::span<const std::byte> bytes,
                                                          bool is_written, Fault& fault);
// Memory of the host that kernels read at the host's own addresses: RESOURCE_EXHAUSTED if the system does not
// let it be registered, or a GPU has other addresses for it.
absl::StatusOr<std::unique_ptr<Memory>> RegisterPieces(std::span<const Gpu> gpus,
                                                       std::span<const std::byte> bytes, Fault& fault);
absl::Status CheckProcessMemoryOwner(std::span<const Gpu> gpus, const ProcessMemory& memory, Fault& fault);
// Opens the memory on the GPU that knows the handle.
absl::StatusOr<std::unique_ptr<Memory>> OpenProcessMemory(std::span<const Gpu> gpus,
                                                          const ProcessMemory& memory, Fault& fault);
absl::StatusOr<std::unique_ptr<Memory>> AllocateDeviceMemory(Gpu gpu, std::uint64_t bytes, Fault& fault);

// As described in kernels/devices.h.
absl::Status ProbeProcessMemory(std::span<const Gpu> gpus, const ProcessMemory& memory);

}  // namespace warpfold::kernels::cuda
