// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A backend that executes the kernels of the cuda backend and of the textbook on the host, as a simt::Device
// does: to help read them, to step through them, and to test them without a GPU. It is thousands of times
// slower than either other backend, and gives the same bits.
//
// It has kernels for few operators (rows.h); its CPU backend reduces the others, and segments.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace warpfold::kernels::simt {

inline constexpr int kMaxSlots = 4;  // of a backend

// Every Start begins anew with `seed` (device.h), so that a request can be repeated exactly as it ran.
absl::StatusOr<std::unique_ptr<Backend>> MakeSimtBackend(std::uint64_t seed, const BackendOptions& options);

}  // namespace warpfold::kernels::simt
