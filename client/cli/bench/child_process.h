// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A server in a separate process, which ends with this one.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpfold::cli {

class ChildProcess {
 public:
  // Starts `command` and waits until it says "READY listen=ADDRESS" on standard output. UNAVAILABLE if it
  // ends earlier, or prints nothing for a minute, with the last line of its log. The log of a process that is
  // ready is discarded.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& command);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) = delete;
  // Ends it, by force if it takes longer than ten seconds.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  const std::string& address() const { return address_; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  // How it has ended, as waitpid() says it; nothing if it still runs after that time.
  std::optional<int> AwaitEnd(absl::Duration longest);

  pid_t pid_;
  std::string address_;
};

// User and system time of a process so far, in steps of 10 ms. NOT_FOUND if it is not there.
absl::StatusOr<double> CpuSecondsOf(pid_t pid);

// User and system time of this process so far, to the microsecond.
double CpuSecondsOfSelf();

}  // namespace warpfold::cli
