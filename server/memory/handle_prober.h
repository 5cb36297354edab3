// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds out whether the memory behind a CUDA IPC handle can be read, in a process of its own. A handle that
// was tampered with may open and then fault when it is read; CUDA ends all work of the process to which that
// happens, and only that process. So another one reads first (docs/adr/0059).
//
// Threads: one.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/memory.h"
#include "server/memory/child_process.h"

namespace warpfold::server {

class HandleProber {
 public:
  // `command` is an executable and its arguments; it must call ServeProbes. It is started by the first Probe,
  // and again after it has ended. An answer that takes longer than `timeout` counts as none.
  explicit HandleProber(std::vector<std::string> command, absl::Duration timeout = absl::Seconds(10))
      : process_(std::move(command)), timeout_(timeout) {}

  // OK if all bytes of `memory` could be read, now or when the same handle was probed before.
  // INVALID_ARGUMENT (BAD_MEMORY) if not; UNAVAILABLE (NO_PROBER) if the process cannot be started;
  // RESOURCE_EXHAUSTED if the device has no room for it.
  absl::Status Probe(const kernels::ProcessMemory& memory);

 private:
  absl::Status Ask(const kernels::ProcessMemory& memory);
  bool IsKnown(const kernels::ProcessMemory& memory) const;

  ChildProcess process_;
  const absl::Duration timeout_;
  std::deque<kernels::ProcessMemory> known_;  // what could be read, the latest last
};

// What the process does: answers probes, which come by standard input, with what `probe` says, until nobody
// asks any more. Returns its exit code. UNAVAILABLE means that CUDA is of no more use to this process: it is
// ended.
int ServeProbes(const std::function<absl::Status(const kernels::ProcessMemory&)>& probe);

}  // namespace warpfold::server
