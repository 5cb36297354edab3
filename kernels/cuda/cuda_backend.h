// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs as a backend: slots are pairs of pinned host and device buffers, each with its own stream. If one GPU
// is lost, the whole backend is lost: the process ends, and all its memory with it.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace warpfold::kernels::cuda {

// Makes a backend on these GPUs, each with options.slots slots, or on all GPUs if none is named. NOT_FOUND if
// there is no such GPU, or no driver at all; FAILED_PRECONDITION if the driver is too old; RESOURCE_EXHAUSTED
// if there is not enough memory for the slots; INTERNAL (LAUNCH_REFUSED) if there are no kernels for this
// GPU, or CUDA refuses something else; UNAVAILABLE (DEVICE_LOST) if it is there but cannot be used. A GPU may
// be named twice, for tests: it then counts as two.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(std::span<const int> ordinals,
                                                         const BackendOptions& options);

}  // namespace warpfold::kernels::cuda
