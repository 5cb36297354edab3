// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Up to which size the host reduces an array sooner than a slot's round trip does.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/core/clock.h"

namespace warpfold::server {

// Measures with slot 0 of a backend that nobody uses yet, in a few milliseconds; 0 for the CPU backend. At
// most 1 MiB and one slot. Where the slot fails, its error: a device that cannot reduce an array now should
// not be waited for by users.
absl::StatusOr<std::uint64_t> MeasureCrossoverBytes(kernels::Backend& backend, const Clock& clock);

}  // namespace warpfold::server
