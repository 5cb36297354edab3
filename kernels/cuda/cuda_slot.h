// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A slot on a GPU: pinned staging memory, its twin on the device, a stream, and the objects that work on it:
// a DeviceReducer, a DeviceSegmentReducer and a Gatherer.
//
// Threads: as kernels/backend.h says about slots.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/gpu.h"

namespace warpfold::kernels::cuda {

// `piece_memory` is where pieces may lie, which may be set later; it and `fault` must outlive the slot.
absl::StatusOr<std::unique_ptr<Slot>> MakeCudaSlot(Gpu gpu, std::size_t bytes,
                                                   const std::span<const std::byte>& piece_memory,
                                                   Fault& fault);

}  // namespace warpfold::kernels::cuda
