// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread that does the same thing again and again, so that no serving thread waits for it: reading a file
// may take for ever if the file system is on the network (NFS) or in a process (FUSE) that does not respond.
#pragma once

#include <functional>
#include <thread>

namespace warpfold::server {

// Threads: one.
class PeriodicThread {
 public:
  // Calls `turn` ten times a second from now on. Throws std::system_error if there is no thread.
  explicit PeriodicThread(std::function<void()> turn);
  // Waits for the call that is in progress, which may never end: see ProcessEnd::EndWithin.
  ~PeriodicThread() = default;

 private:
  std::jthread thread_;
};

}  // namespace warpfold::server
