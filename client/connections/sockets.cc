// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/connections/sockets.h"

#include <fcntl.h>
#include <grpc/support/sync.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/shared/send_buffer.h"

// The functions that gRPC calls on each socket before it connects. The setter is public,
// ChannelArguments::SetSocketMutator, but the type is not: this is that of
// src/core/lib/iomgr/socket_mutator.h, the same in gRPC 1.51 and 1.83.
struct grpc_socket_mutator {
  struct Functions {
    bool (*mutate)(int descriptor, grpc_socket_mutator* self);
    int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
    void (*destroy)(grpc_socket_mutator* self);
    bool (*mutate_for_use)(const void* descriptor_and_use, grpc_socket_mutator* self);
  };
  const Functions* functions;
  gpr_refcount references;
};

namespace warpfold {
namespace {

bool IsSocket(int descriptor, ino_t inode) {
  struct stat info = {};
  return fstat(descriptor, &info) == 0 && S_ISSOCK(info.st_mode) && info.st_ino == inode;
}

bool HasPeer(int descriptor) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  return getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

// A descriptor number that is kept free, so that a socket can be duplicated even at the limit of open files.
// There is one for the process, as there is one limit. Threads: any.
class SpareDescriptor {
 public:
  // Takes the descriptor that it needs, unless it has it. At the limit of open files it may have to be called
  // again.
  void Prepare() {
    absl::MutexLock lock(&mutex_);
    for (int* descriptor : {&nothing_, &spare_}) {
      if (*descriptor < 0) *descriptor = eventfd(0, EFD_CLOEXEC);
    }
  }

  // Shuts down the socket if the descriptor still is that socket. gRPC may close the descriptor meanwhile,
  // and another thread may get its number: the spare one stays what it is. False if there is no spare number:
  // the socket may still be that one, and open.
  bool ShutDown(int descriptor, ino_t inode) {
    Prepare();
    absl::MutexLock lock(&mutex_);
    if (nothing_ < 0 || spare_ < 0) return false;
    // Another file may have the number now: closing a duplicate of it would end this process's locks on it.
    if (!IsSocket(descriptor, inode)) return true;
    if (dup3(descriptor, spare_, O_CLOEXEC) < 0) return !IsSocket(descriptor, inode);
    if (IsSocket(spare_, inode)) shutdown(spare_, SHUT_RDWR);
    // It does not keep the socket open.
    dup3(nothing_, spare_, O_CLOEXEC);
    return true;
  }

 private:
  absl::Mutex mutex_;
  int nothing_ ABSL_GUARDED_BY(mutex_) = -1;
  int spare_ ABSL_GUARDED_BY(mutex_) = -1;
};

// Never destroyed: gRPC opens sockets until the process ends.
SpareDescriptor& Spare() {
  static SpareDescriptor& spare = *new SpareDescriptor();
  return spare;
}

}  // namespace

class Sockets::Known {
 public:
  void Add(int descriptor) {
    Spare().Prepare();
    struct stat info = {};
    if (fstat(descriptor, &info) != 0) return;
    absl::MutexLock lock(&mutex_);
    std::erase_if(open_, [](const Socket& socket) { return !IsSocket(socket.descriptor, socket.inode); });
    open_.push_back({descriptor, info.st_ino});
  }

  bool ShutDown() {
    absl::MutexLock lock(&mutex_);
    std::erase_if(open_,
                  [](const Socket& socket) { return Spare().ShutDown(socket.descriptor, socket.inode); });
    return open_.empty();
  }

  bool AnyIsTaken() {
    absl::MutexLock lock(&mutex_);
    return std::any_of(open_.begin(), open_.end(), [](const Socket& socket) {
      // The order matters: a socket with a peer may be another file that now has the number.
      return HasPeer(socket.descriptor) && IsSocket(socket.descriptor, socket.inode);
    });
  }

 private:
  // A descriptor, and what tells whether it still is that socket: no two open sockets have the same inode.
  struct Socket {
    int descriptor = -1;
    ino_t inode = 0;
  };

  absl::Mutex mutex_;
  std::vector<Socket> open_ ABSL_GUARDED_BY(mutex_);
};

class Sockets::Reporter : public grpc_socket_mutator {
 public:
  explicit Reporter(std::shared_ptr<Known> known) : known_(std::move(known)) {
    static constexpr Functions kFunctions = {&Report, &Compare, &Destroy, nullptr};
    functions = &kFunctions;
    gpr_ref_init(&references, 1);
  }

 private:
  static bool Report(int descriptor, grpc_socket_mutator* self) {
    WidenSendBuffer(descriptor);
    static_cast<Reporter*>(self)->known_->Add(descriptor);
    return true;
  }
  static int Compare(grpc_socket_mutator* a, grpc_socket_mutator* b) {
    if (a == b) return 0;
    return std::less<>()(a, b) ? -1 : 1;
  }
  static void Destroy(grpc_socket_mutator* self) { delete static_cast<Reporter*>(self); }

  const std::shared_ptr<Known> known_;
};

Sockets::Sockets() : known_(std::make_shared<Known>()) {}

void Sockets::ReportFrom(grpc::ChannelArguments& arguments) const {
  // It belongs to the arguments, and to the channel.
  arguments.SetSocketMutator(new Reporter(known_));
}

bool Sockets::ShutDown() const { return known_->ShutDown(); }

bool Sockets::AnyIsTaken() const { return known_->AnyIsTaken(); }

}  // namespace warpfold
