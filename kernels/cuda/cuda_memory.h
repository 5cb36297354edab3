// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that this device reads: registered, opened or allocated. Each is given back when it is destroyed,
// unless the device has failed: then nothing touches CUDA any more.
//
// Threads: as kernels/memory.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/cuda/fault.h"
#include "kernels/memory.h"

namespace warpfold::kernels::cuda {

// These are Backend's functions (kernels/backend.h), for the GPU of this number. `fault` must outlive the
// memory.
absl::StatusOr<std::unique_ptr<Memory>> RegisterHostMemory(int ordinal, std::span<const std::byte> bytes,
                                                           Fault& fault);
// Memory of the host that kernels read by the host's own addresses: RESOURCE_EXHAUSTED where the system does
// not let it be registered, or the device has other addresses for it.
absl::StatusOr<std::unique_ptr<Memory>> RegisterPieces(int ordinal, std::span<const std::byte> bytes,
                                                       Fault& fault);
absl::StatusOr<std::unique_ptr<Memory>> OpenProcessMemory(int ordinal, const ProcessMemory& memory,
                                                          Fault& fault);
absl::StatusOr<std::unique_ptr<Memory>> AllocateDeviceMemory(int ordinal, std::uint64_t bytes, Fault& fault);

// As kernels/devices.h has it.
absl::Status ProbeProcessMemory(int ordinal, const ProcessMemory& memory);

}  // namespace warpfold::kernels::cuda
