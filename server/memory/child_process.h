// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A process that the server starts for work which may crash a process, or hold one up for ever. The two
// communicate over a pair of sockets of type SOCK_SEQPACKET, one end of which is the process' standard input.
//
// Threads: one.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/net/file_descriptor.h"

namespace warpfold::server {

class ChildProcess {
 public:
  // `command` is an executable and its arguments; it must call EndWithParent.
  explicit ChildProcess(std::vector<std::string> command) : command_(std::move(command)) {}
  ChildProcess(ChildProcess&& other) noexcept
      : command_(other.command_),
        process_(std::exchange(other.process_, -1)),
        socket_(std::move(other.socket_)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess() { Stop(); }

  // Call this while it is not running. UNAVAILABLE (NO_PROBER) if it cannot be started.
  absl::Status Start();
  // Ends it, if it runs, and waits for its end.
  void Stop();
  // Ends it without waiting: IsRunning says when it has ended.
  void Kill();
  // Likewise, and forgets it. The kernel keeps it until this process ends.
  void Abandon();

  // False before Start, and once it has ended, by itself or by Stop.
  bool IsRunning();
  // The server's end, which is not open if the process does not run, or was killed.
  const FileDescriptor& socket() const { return socket_; }

 private:
  const std::vector<std::string> command_;
  pid_t process_ = -1;
  FileDescriptor socket_;
};

// UNAVAILABLE (NO_PROBER): the work of such a process cannot be done.
absl::Status NoProber(absl::string_view why);

// For the process itself: has the kernel end it when the thread that started it ends.
void EndWithParent();

}  // namespace warpfold::server
