// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/own_socket.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace warpfold {

// This is the list of the process' OwnSockets. A fork waits for the lock, so that it finds no descriptor that
// is open and not in a listed one. The lock is the C library's, which takes no other lock: absl::Mutex may,
// and at the fork that lock may be held by another thread, which the new process does not have.
class OwnSocket::All {
 public:
  // Never destroyed: a process may fork while it ends.
  static All& Get() {
    static All* const all = new All;
    return *all;
  }

  std::mutex mutex;
  std::vector<OwnSocket*> sockets;  // guarded by mutex

 private:
  All() {
    // Fails only without memory for three pointers. Forks then share sockets.
    pthread_atfork([] { Get().mutex.lock(); }, [] { Get().mutex.unlock(); }, [] { Get().EndInChild(); });
  }

  // This runs in the new process, whose only thread this is: the functions that it calls must be safe in a
  // signal handler.
  void EndInChild() {
    for (OwnSocket* const socket : sockets) {
      if (socket->descriptor_ >= 0) close(socket->descriptor_);
      socket->descriptor_ = -1;
    }
    mutex.unlock();
  }
};

OwnSocket::OwnSocket() {
  All& all = All::Get();
  const std::lock_guard lock(all.mutex);
  all.sockets.push_back(this);
}

OwnSocket::~OwnSocket() {
  Close();
  All& all = All::Get();
  const std::lock_guard lock(all.mutex);
  all.sockets.erase(std::find(all.sockets.begin(), all.sockets.end(), this));
}

bool OwnSocket::Open(int family, int type) {
  Close();
  const std::lock_guard lock(All::Get().mutex);
  descriptor_ = socket(family, type | SOCK_CLOEXEC, 0);
  return descriptor_ >= 0;
}

void OwnSocket::Close() {
  const std::lock_guard lock(All::Get().mutex);
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

}  // namespace warpfold
