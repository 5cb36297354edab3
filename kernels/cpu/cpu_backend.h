// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU as a backend: slots are plain memory, and a pool of threads reduces their subtrees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/dispatch.h"

namespace warpfold::kernels::cpu {

// RESOURCE_EXHAUSTED if the system lacks the memory for the slots, or allows no more threads.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options,
                                                        const InstructionSet& isa = BestInstructionSet());

// The bytes of the host's memory that a slot takes for its staging buffer of `slot_bytes` and for results of
// segments. If slot_bytes is 0, the buffer has its usual size (kDefaultSlotBytes).
std::uint64_t HostBytesOfSlot(std::size_t slot_bytes);

}  // namespace warpfold::kernels::cpu
