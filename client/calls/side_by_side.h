// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of one request that run at the same time, and what may end them. Internal.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "client/connections/connection.h"

namespace warpfold {

// Runs one part. Returns true if the other parts should be stopped.
using Part = std::function<bool(std::size_t part, const Interrupts& interrupts)>;

// Runs parts 0 to parts - 1, each on its own thread unless there is only one, and returns when all have
// returned. They get a `stop` that ends them all. keep_going is called on the calling thread: after its first
// false all are stopped, and the status is CANCELLED; otherwise it is OK, whatever the parts did. An
// exception from a part or keep_going stops all, too, and is rethrown. If the system has no more threads, the
// calling thread runs the remaining parts, one after another.
absl::Status RunSideBySide(std::size_t parts, const Interrupts& interrupts, const Part& run);

}  // namespace warpfold
