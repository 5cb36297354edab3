// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread that looks at files while the server serves. A read may take for ever where the file system is one
// of the network (NFS) or of a process (FUSE) that does not answer; nobody else waits for it then.
#pragma once

#include <functional>
#include <thread>

namespace warpfold::server {

// Threads: one.
class PeriodicThread {
 public:
  // Calls `check` ten times a second from now on. Throws std::system_error where there is no thread.
  explicit PeriodicThread(std::function<void()> check);
  // Waits for the call that is under way, which may not end: see ProcessEnd::EndWithin.
  ~PeriodicThread() = default;

 private:
  std::jthread thread_;
};

}  // namespace warpfold::server
