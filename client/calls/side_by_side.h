// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of one request that run at the same time, and who may end them. Internal.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "client/connections/connection.h"

namespace warpfold {

// One part. Whether the others need not go on.
using Part = std::function<bool(std::size_t part, const Interrupts& interrupts)>;

// Runs parts 0 to parts - 1, each on a thread of its own except for a single one, and returns when all have
// returned. They are given a `stop` that ends them all. keep_going is asked on the thread that calls: after
// its first false all are stopped, and the status is CANCELLED; else it is OK, whatever the parts did. What a
// part or keep_going throws stops all, too, and is thrown on. Where the system gives no thread, the thread
// that calls runs the parts that are left, one after another.
absl::Status RunSideBySide(std::size_t parts, const Interrupts& interrupts, const Part& run);

}  // namespace warpfold
