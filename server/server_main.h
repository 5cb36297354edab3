// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The server as a process, except for the choice of its device: flags, log, signals, the READY line and the
// exit codes.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/flags.h"

namespace warpfold::server {

// Opens the device that the flags name. Called once, after signals are blocked.
using OpenBackend = std::function<absl::StatusOr<std::unique_ptr<kernels::Backend>>(const Flags&)>;

// Serves until SIGTERM or SIGINT; this is all that main does. Returns the exit code: 0 drained, 2 bad flags,
// 3 the device, memory, threads or an address are not available yet, or the device fails its first trial. A
// device that fails while it serves ends the process from within, with 4.
int ServerMain(int argc, const char* const* argv, const OpenBackend& open_backend);

// With one of these alone the server starts itself: to probe memory of other processes, with "cuda:N" behind
// it (server/memory/handle_prober.h), which its main has to do; or to seal it (server/memory/memfd_sealer.h).
// Not for users.
inline constexpr char kProbeMemoryFlag[] = "--probe_memory=";
inline constexpr char kSealMemoryFlag[] = "--seal_memory";

}  // namespace warpfold::server
