// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU as a backend: slots are pairs of pinned host and device buffers, each with a stream of its own.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace warpfold::kernels::cuda {

// NOT_FOUND if there is no such GPU, or no driver at all; UNAVAILABLE (DEVICE_LOST) if it is there but
// cannot be used: a driver that is too old, not enough memory for the slots.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int ordinal, const BackendOptions& options);

}  // namespace warpfold::kernels::cuda
