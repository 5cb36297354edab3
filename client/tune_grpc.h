// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// For programs that send much: gRPC's settings, which are the whole process' and so the program's to choose.
#pragma once

namespace warpfold {

// Starts gRPC with settings under which connections do not wait for one another: on 16 cores 64 callers of
// 1 MiB carry twice as much, and 16 callers of 4 KiB make seven times as many calls, or 2.5 times where
// abseil was built without checks (docs/adr/0123).
//   - A thread waits for the sockets of its own calls only, instead of all threads for one that receives for
//     all of them: gRPC's polling strategy `poll`, unless the environment's GRPC_POLL_STRATEGY names another
//     that gRPC has. Without this call, gRPC ends a process whose environment names one that it has not.
//   - Locks are no longer checked for deadlocks, which takes one lock for all threads.
// A program with one caller gains little, and on two cores its call of 4 KiB over a Unix socket takes 10 us
// more. A thread that computes its next chunk receives nothing meanwhile. Both settings hold for all that the
// process does with gRPC. `poll` is not for a process that also serves thousands of connections.
//
// To be called at the start of main: before gRPC is used by anybody, or the strategy stays what it is, and
// before there are other threads, since the environment is changed for a moment. Calls after the first do
// nothing.
void TuneGrpc();

}  // namespace warpfold
