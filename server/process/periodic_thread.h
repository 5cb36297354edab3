// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread that does the same thing again and again, so that nobody who serves waits for it: to read a file
// may take for ever where the file system is one of the network (NFS) or of a process (FUSE) that does not
// answer.
#pragma once

#include <functional>
#include <thread>

namespace warpfold::server {

// Threads: one.
class PeriodicThread {
 public:
  // Calls `turn` ten times a second from now on. Throws std::system_error where there is no thread.
  explicit PeriodicThread(std::function<void()> turn);
  // Waits for the call that is under way, which may not end: see ProcessEnd::EndWithin.
  ~PeriodicThread() = default;

 private:
  std::jthread thread_;
};

}  // namespace warpfold::server
