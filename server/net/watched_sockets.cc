// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/watched_sockets.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <span>
#include <utility>

#include "server/net/foreign_descriptors.h"
#include "server/net/system_calls.h"
#include "server/net/watched_connection.h"

namespace warpfold::server {
namespace {

// More than --max_connections can be. What is not used takes no memory.
constexpr std::size_t kMaxWatched = std::size_t{1} << 21;

// A connection from the call that watches it until its descriptor is closed, which gRPC does when no thread
// uses it any more.
struct Watched {
  std::shared_ptr<WatchedConnection> connection;
  bool is_plain = true;
};

std::array<std::atomic<Watched*>, kMaxWatched> watched = {};

bool HasPlace(int descriptor) {
  return descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMaxWatched;
}

// Null if the descriptor is not watched.
Watched* WatchedAt(int descriptor) {
  return HasPlace(descriptor) ? watched[descriptor].load(std::memory_order_acquire) : nullptr;
}

// Null if its bytes say nothing.
WatchedConnection* PlainAt(int descriptor) {
  const Watched* const at = WatchedAt(descriptor);
  return at != nullptr && at->is_plain ? at->connection.get() : nullptr;
}

std::shared_ptr<WatchedConnection> Watch(int descriptor, bool is_plain) {
  if (!HasPlace(descriptor)) return nullptr;
  auto connection = std::make_shared<WatchedConnection>(descriptor);
  delete watched[descriptor].exchange(new Watched{.connection = connection, .is_plain = is_plain});
  return connection;
}

// Null if the descriptor is not watched. Now it is not.
std::unique_ptr<Watched> Unwatch(int descriptor) {
  if (WatchedAt(descriptor) == nullptr) return nullptr;
  return std::unique_ptr<Watched>(watched[descriptor].exchange(nullptr));
}

// Passes the first `size` bytes of `message` to `take`, part by part, until that returns a complaint.
template <class Take>
const char* InParts(const msghdr& message, std::size_t size, const Take& take) {
  for (std::size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const std::size_t n = std::min(part.iov_len, size);
    size -= n;
    const char* const complaint =
        take(std::span<const std::byte>(static_cast<const std::byte*>(part.iov_base), n));
    if (complaint != nullptr) return complaint;
  }
  return nullptr;
}

// Removes `bytes` from the socket; they have been read before.
void Drop(int descriptor, std::size_t bytes) {
  std::array<std::byte, std::size_t{32} << 10> scratch;
  while (bytes > 0) {
    const ssize_t size = syscall(SYS_recvfrom, descriptor, scratch.data(), std::min(bytes, scratch.size()), 0,
                                 nullptr, nullptr);
    if (size == 0 || (size < 0 && errno != EINTR)) return;
    if (size > 0) bytes -= static_cast<std::size_t>(size);
  }
}

// Reads like recvmsg. *brings_descriptors says that descriptors come with these bytes, which are then not
// taken: taking them would mean closing the descriptors, or having them in this process.
ssize_t ReadButDescriptors(int descriptor, msghdr* message, bool* brings_descriptors) {
  message->msg_control = nullptr;
  message->msg_controllen = 0;
  const ssize_t size = SystemReceive(descriptor, message, MSG_PEEK);
  if (size < 0) return size;
  *brings_descriptors = (message->msg_flags & MSG_CTRUNC) != 0;
  if (!*brings_descriptors) Drop(descriptor, static_cast<std::size_t>(size));
  return size;
}

}  // namespace

void WatchSocket(int descriptor) {
  // A byte that was sent out of band (MSG_OOB) would be passed over when the others are looked at: so would
  // the descriptors that it brings, and a byte that stays unread makes the socket readable for ever.
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
  Watch(descriptor, /*is_plain=*/true);
}

std::shared_ptr<WatchedConnection> WatchEncryptedSocket(int descriptor) {
  return Watch(descriptor, /*is_plain=*/false);
}

}  // namespace warpfold::server

// These replace the C library's functions. gRPC reads without flags.
extern "C" ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  WatchedConnection* const connection = flags == 0 ? PlainAt(descriptor) : nullptr;
  bool brings_descriptors = false;
  const ssize_t size = connection != nullptr && connection->may_bring_descriptors()
                           ? ReadButDescriptors(descriptor, message, &brings_descriptors)
                           : SystemReceive(descriptor, message, flags);
  if (size < 0 || connection == nullptr) return size;
  const char* const complaint =
      brings_descriptors ? "descriptors" : InParts(*message, static_cast<std::size_t>(size), [=](auto bytes) {
        return connection->TakeReceived(bytes);
      });
  if (complaint == nullptr) return size;
  connection->Cut(complaint);
  errno = ECONNRESET;
  return -1;
}

extern "C" ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  const Watched* const at = WatchedAt(descriptor);
  const bool is_plain = at != nullptr && at->is_plain;
  if (is_plain) at->connection->ServerSpeaks();
  const ssize_t size = SystemSend(descriptor, message, flags);
  if (at == nullptr || size <= 0) return size;
  if (is_plain) {
    InParts(*message, static_cast<std::size_t>(size), [=](auto bytes) -> const char* {
      at->connection->TakeSent(bytes);
      return nullptr;
    });
  }
  at->connection->ConfirmSent();
  return size;
}

extern "C" int close(int descriptor) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  const std::unique_ptr<Watched> ended = Unwatch(descriptor);
  if (ended == nullptr) return SystemClose(descriptor);
  ended->connection->End();
  if (!ended->connection->may_bring_descriptors()) return SystemClose(descriptor);
  CloseSocket(FileDescriptor(descriptor));
  return 0;
}
