// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/foreign_descriptors.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "server/net/system_calls.h"
#include "server/net/unix_socket.h"

namespace warpfold::server {
namespace {

#ifdef SO_PASSRIGHTS
constexpr int kPassRights = SO_PASSRIGHTS;
#else
constexpr int kPassRights = 83;
#endif

// A signal ends a close that waits for a socket that lingers. Nothing else in this process uses this signal.
int HurrySignal() { return SIGRTMIN + 7; }

using Time = std::chrono::steady_clock::time_point;

class Closer {
 public:
  Closer() {
    struct sigaction nothing = {};
    nothing.sa_handler = [](int) {};  // without SA_RESTART: what it interrupts ends
    sigaction(HurrySignal(), &nothing, nullptr);
  }

  struct Left {
    FileDescriptor descriptor;
    bool is_connection = false;  // of this process
    std::shared_ptr<const void> with;
  };

  void Close(Left left, uid_t owner) {
    const std::lock_guard lock(mutex_);
    owners_[owner].left.push_back(std::move(left));
    // The watcher comes first, since it is what tries again if threads run out.
    if (!is_watched_) is_watched_ = Start([this] { Watch(); });
    StartOneFor(owner);
    some_left_.notify_one();
  }

 private:
  struct Owner {
    std::deque<Left> left;
    int threads = 0;
  };
  struct Busy {
    pthread_t thread;
    Time hurry_at;
  };
  static constexpr std::chrono::milliseconds kLookAgain{250};
  static constexpr std::chrono::seconds kPatience{1};

  // False if the system has no more threads.
  template <class Function>
  static bool Start(Function run) {
    try {
      std::thread(run).detach();
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  // Starts a thread for the owner if it may have one more. If the system has no more threads, the watcher
  // tries again.
  void StartOneFor(uid_t owner) {
    Owner& of_owner = owners_[owner];
    if (of_owner.threads >= kClosersOfOne || threads_ >= kMaxClosers) return;
    if (!Start([this, owner] { Run(owner); })) return;
    ++of_owner.threads;
    ++threads_;
  }

  // As long as something is left, looks for closes that take too long, and for owners that have no thread.
  void Watch() {
    std::unique_lock lock(mutex_);
    for (;;) {
      some_left_.wait(lock, [this] { return !owners_.empty(); });
      some_left_.wait_for(lock, kLookAgain, [] { return false; });
      const Time now = std::chrono::steady_clock::now();
      // A connection may have brought many such sockets, so its thread is interrupted each time again.
      // Threads leave busy_ under the same mutex.
      for (const Busy& busy : busy_) {
        if (now >= busy.hurry_at) pthread_kill(busy.thread, HurrySignal());
      }
      if (const std::optional<uid_t> waiting = FindWaiting(kNobody)) StartOneFor(*waiting);
    }
  }

  // Runs until nothing is left of the owner, nor of others that may have one more thread.
  void Run(uid_t owner) {
    sigset_t hurry;
    sigemptyset(&hurry);
    sigaddset(&hurry, HurrySignal());
    pthread_sigmask(SIG_UNBLOCK, &hurry, nullptr);
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
      const auto busy =
          busy_.insert(busy_.end(), {pthread_self(), std::chrono::steady_clock::now() + kPatience});
      lock.unlock();
      Close(next);
      next = {};
      lock.lock();
      busy_.erase(busy);
    }
  }

  // Owners whose descriptors wait although they may have one more thread: when these came, all threads were
  // busy. Those after `last` come first, so that each has its turn.
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
    SystemClose(left.descriptor.Release());
  }

  std::mutex mutex_;
  // These are guarded by mutex_.
  std::condition_variable some_left_;
  std::map<uid_t, Owner> owners_;
  int threads_ = 0;
  std::list<Busy> busy_;
  bool is_watched_ = false;
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

void DestroyElsewhere(std::shared_ptr<const void> last, uid_t owner) {
  Close({.descriptor = {}, .with = std::move(last)}, owner);
}

void CloseConnectionElsewhere(FileDescriptor connection, uid_t owner, std::shared_ptr<const void> with) {
  Close({.descriptor = std::move(connection), .is_connection = true, .with = std::move(with)}, owner);
}

void CloseSocket(FileDescriptor socket) {
  if (!MayBringDescriptors(socket.get())) {
    SystemClose(socket.Release());  // not close, which may have led here
    return;
  }
  const uid_t owner = PeerUser(socket.get()).value_or(kNobody);
  CloseConnectionElsewhere(std::move(socket), owner);
}

}  // namespace warpfold::server
