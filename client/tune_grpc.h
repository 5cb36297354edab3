// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// For programs that send much data: gRPC's settings, which apply to the whole process, so that the program
// has to choose them.
#pragma once

#include "absl/status/status.h"

namespace warpfold {

// Starts gRPC with settings under which connections do not wait for one another: on 16 cores 64 callers of
// 1 MiB carry twice as much, and 16 callers of 4 KiB make seven times as many calls, or 2.5 times as many if
// abseil was built without checks (docs/adr/0123).
//   - Each thread waits only for the sockets of its own calls; otherwise all threads wait for one that
//     receives for all of them. This is gRPC's polling strategy `poll`, which is used unless the
//     environment's GRPC_POLL_STRATEGY names another one that gRPC has. Without this call, gRPC ends a
//     process whose environment names a strategy that it does not have.
//   - Locks are no longer checked for deadlocks; the check takes one lock for all threads.
// A program with one caller gains little, and on two cores its call of 4 KiB over a Unix socket takes 10 us
// more. A thread that computes its next chunk receives nothing meanwhile. Both settings apply to everything
// that the process does with gRPC. `poll` is not for a process that also serves thousands of connections.
//
// Call it at the start of main: before anything uses gRPC, since otherwise the strategy stays what it is, and
// before there are other threads, since the environment is changed for a moment. Calls after the first do
// nothing. RESOURCE_EXHAUSTED if the process has too few file descriptors left, with which gRPC cannot start:
// then nothing is done, and the next call tries again.
absl::Status TuneGrpc();

}  // namespace warpfold
