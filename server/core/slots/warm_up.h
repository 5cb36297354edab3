// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Loads kernels before anybody waits for them. A driver loads a kernel when it is first launched, and may
// then have to make room for its threads' memory, for which it waits until the device is idle.
// Crossovers::Measure launches the kernels of operators over arrays of scalars, and over small matrices as a
// whole and those of 16 x 16; the function here launches those of all other kinds of calls.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "server/core/clock.h"

namespace warpfold::server {

// A division takes the same time whatever the modulus is. This one fits all integers.
inline constexpr std::uint64_t kAnyModulus = 97;

// Reduces a few KiB in each of these ways, on a slot that nobody uses. For every operator and every type that
// it takes: matrices entry by entry, and segments; the same with NaN ignored, and scalars with NaN ignored.
// For operators over whole matrices: each dimension above kMaxFixedDimension. Last, a sum of pieces, if the
// backend opens memory for them. Adds the number of these calls to `calls`. Returns the error of a slot that
// fails, as Crossovers::Measure does.
absl::Status WarmUpOtherCalls(kernels::Slot& slot, bool opens_pieces, const Clock& clock, int& calls);

}  // namespace warpfold::server
