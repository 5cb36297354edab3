// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/foreign_descriptors.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "server/net/unix_socket.h"

namespace warpfold::server {
namespace {

#ifdef SO_PASSRIGHTS
constexpr int kPassRights = SO_PASSRIGHTS;
#else
constexpr int kPassRights = 83;
#endif

class Closer {
 public:
  struct Left {
    FileDescriptor descriptor;
    bool is_connection = false;  // of this process
    std::shared_ptr<const void> with;
  };

  void Close(Left left, uid_t owner) {
    const std::lock_guard lock(mutex_);
    Owner& of_owner = owners_[owner];
    of_owner.left.push_back(std::move(left));
    if (of_owner.threads >= kClosersOfOne || threads_ >= kMostClosers) return;
    try {
      std::thread([this, owner] { Run(owner); }).detach();
      ++of_owner.threads;
      ++threads_;
    } catch (const std::system_error&) {
      // A thread that has done with its own takes this one, too, or one that the next Close makes.
    }
  }

 private:
  struct Owner {
    std::deque<Left> left;
    int threads = 0;
  };

  // Until nothing is left of the owner, nor of others who may have one more thread.
  void Run(uid_t owner) {
    std::unique_lock lock(mutex_);
    for (;;) {
      CloseAllOf(owner, lock);
      if (--owners_[owner].threads == 0) owners_.erase(owner);
      const std::optional<uid_t> next = FindWaiting(owner);
      if (!next.has_value()) break;
      owner = *next;
      ++owners_[owner].threads;
    }
    --threads_;
  }

  void CloseAllOf(uid_t owner, std::unique_lock<std::mutex>& lock) {
    std::deque<Left>& left = owners_[owner].left;
    while (!left.empty()) {
      Left next = std::move(left.front());
      left.pop_front();
      lock.unlock();
      Close(next);
      next = {};
      lock.lock();
    }
  }

  // Whose descriptors wait though they may have one more thread: when they came all threads were busy.
  // Those after `last` come first, so that each has its turn.
  std::optional<uid_t> FindWaiting(uid_t last) const {
    const auto waits = [](const auto& entry) {
      return !entry.second.left.empty() && entry.second.threads < kClosersOfOne;
    };
    const auto behind = owners_.upper_bound(last);
    auto found = std::find_if(behind, owners_.end(), waits);
    if (found == owners_.end()) found = std::find_if(owners_.begin(), behind, waits);
    return found != owners_.end() && waits(*found) ? std::optional(found->first) : std::nullopt;
  }

  static void Close(Left& left) {
    const int fd = left.descriptor.get();
    if (left.is_connection) {
      std::array<char, 4096> unread;
      shutdown(fd, SHUT_RD);
      while (recv(fd, unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
    } else {
      const linger at_once = {};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    // Not close, which leads here for some sockets (server/net/watched_sockets.cc).
    syscall(SYS_close, left.descriptor.Release());
  }

  std::mutex mutex_;
  std::map<uid_t, Owner> owners_;  // guarded by mutex_
  int threads_ = 0;                // guarded by mutex_
};

void Close(Closer::Left left, uid_t owner) {
  static Closer& closer = *new Closer;  // threads may hang in it until the process ends
  closer.Close(std::move(left), owner);
}

}  // namespace

void RefuseDescriptors(int listener) {
  const int no = 0;
  setsockopt(listener, SOL_SOCKET, kPassRights, &no, sizeof(no));
}

bool MayBringDescriptors(int socket) {
  int domain = 0;
  int passes = 0;
  socklen_t size = sizeof(domain);
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) return false;
  return getsockopt(socket, SOL_SOCKET, kPassRights, &passes, &size) != 0 || passes != 0;
}

void CloseElsewhere(FileDescriptor descriptor, uid_t owner, std::shared_ptr<const void> with) {
  Close({.descriptor = std::move(descriptor), .with = std::move(with)}, owner);
}

void CloseConnectionElsewhere(FileDescriptor connection, uid_t owner, std::shared_ptr<const void> with) {
  Close({.descriptor = std::move(connection), .is_connection = true, .with = std::move(with)}, owner);
}

void CloseSocket(FileDescriptor socket) {
  if (!MayBringDescriptors(socket.get())) return;
  const uid_t owner = PeerUser(socket.get()).value_or(kNobody);
  CloseConnectionElsewhere(std::move(socket), owner);
}

}  // namespace warpfold::server
