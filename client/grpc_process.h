// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What this process must do once so that gRPC 1.51 behaves. Internal.
#pragma once

namespace warpfold {

// No destructor of ours, nor the end of the process, waits for gRPC's threads. docs/adr/0011 tells why they
// otherwise would.
void KeepGrpcRunning();

}  // namespace warpfold
