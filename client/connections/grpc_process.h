// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What this process must do once so that gRPC 1.51 behaves. Internal.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpfold {

// How late gRPC's timers may be. They are a thread, which a process that may have no more threads does not
// get: after this time nobody waits for them any longer.
inline constexpr absl::Duration kLatestTimer = absl::Seconds(1);

// How many descriptors gRPC takes when it starts, whatever its polling strategy.
inline constexpr int kGrpcDescriptors = 4;
// Starts gRPC, if this process has not. No destructor of ours, nor the end of the process, then waits for
// gRPC's threads. docs/adr/0011 says why they otherwise would. RESOURCE_EXHAUSTED if the process has fewer
// than kGrpcDescriptors left: gRPC would end the process. The next call tries again.
absl::Status KeepGrpcRunning();

// For a process that makes several connections at once. gRPC asks for connect()'s errno only after it has
// taken locks (its pull request 35064 ends that), and the first lock of a process that two threads wait for
// makes abseil look for the CPU's frequency in a file that most machines lack. The connection is then given
// up with "No such file or directory". Takes 5 ms, once: abseil measures the frequency instead.
void LookUpCpuFrequency();

}  // namespace warpfold
