// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/watched_sockets.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/log_sampler.h"
#include "server/logging.h"
#include "server/net/connections.h"
#include "server/net/frame_watch.h"
#include "server/net/peer_resets.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kMostWatched = 65'536;

// A connection. One thread at a time reads from it, and none does when its descriptor is given to the next
// connection, since gRPC has then closed it.
struct Watched {
  ino_t inode = 0;
  std::shared_ptr<PeerResets> of_peer;
  FrameWatch frames;
};

std::array<std::atomic<Watched*>, kMostWatched> watched = {};
std::atomic<std::uint64_t> floods_closed = 0;

ino_t InodeOf(int descriptor) {
  struct stat info = {};
  return fstat(descriptor, &info) == 0 ? info.st_ino : 0;
}

bool HasPlace(int descriptor) {
  return descriptor >= 0 && static_cast<std::size_t>(descriptor) < kMostWatched;
}

void Replace(int descriptor, std::unique_ptr<Watched> by) {
  if (HasPlace(descriptor)) delete watched[descriptor].exchange(by.release());
}

void Complain(int descriptor, const char* complaint) {
  static LogSampler& sampler = *new LogSampler;  // there may be readers until the process ends
  if (!sampler.Admit(complaint, absl::Now())) return;
  Log(LogLevel::kWarning,
      absl::StrCat("closed a connection of ", PeerOf(descriptor), ": it sends ", complaint));
}

// The connections of all peers, until the process ends.
AllPeersResets& OfPeers() {
  static AllPeersResets& of_peers = *new AllPeersResets;
  return of_peers;
}

// Null, or what is wrong with the `size` bytes that were read into `message`.
const char* Look(Watched& connection, const msghdr& message, std::size_t size) {
  const auto now = std::chrono::steady_clock::now();
  const std::uint64_t resets_before = connection.frames.resets();
  const char* complaint = nullptr;
  for (std::size_t i = 0; i < message.msg_iovlen && size > 0 && complaint == nullptr; ++i) {
    const iovec& part = message.msg_iov[i];
    const std::size_t n = std::min(part.iov_len, size);
    size -= n;
    complaint = connection.frames.Take({static_cast<const std::byte*>(part.iov_base), n}, now);
  }
  const std::uint64_t resets = connection.frames.resets() - resets_before;
  if (resets == 0 || connection.of_peer->Spend(static_cast<double>(resets), now)) return complaint;
  return complaint != nullptr ? complaint : "calls that are taken back, as its peer's other connections do";
}

// Ends the connection at once. When gRPC closes the descriptor, the client is told by a reset: a plain end
// would leave a client that writes against a full window waiting for a minute, and the system remembering it.
void Cut(int descriptor) {
  ++floods_closed;
  const linger no_farewell = {.l_onoff = 1, .l_linger = 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &no_farewell, sizeof(no_farewell));
  shutdown(descriptor, SHUT_RDWR);
}

}  // namespace

void WatchSocket(int descriptor) {
  auto connection = std::make_unique<Watched>();
  connection->inode = InodeOf(descriptor);
  connection->of_peer = OfPeers().Of(PeerOf(descriptor), std::chrono::steady_clock::now());
  Replace(descriptor, std::move(connection));
}

void LeaveSocketUnwatched(int descriptor) { Replace(descriptor, nullptr); }

std::uint64_t FloodsClosed() { return floods_closed; }

}  // namespace warpfold::server

// Replaces the C library's function. gRPC reads without flags.
extern "C" ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  const ssize_t size = syscall(SYS_recvmsg, descriptor, message, flags);
  if (size <= 0 || flags != 0 || !HasPlace(descriptor)) return size;
  Watched* const connection = watched[descriptor].load(std::memory_order_acquire);
  if (connection == nullptr) return size;
  const char* const complaint = Look(*connection, *message, static_cast<std::size_t>(size));
  // The descriptor may by now belong to a socket that does not carry HTTP/2.
  if (complaint == nullptr || InodeOf(descriptor) != connection->inode) return size;
  Complain(descriptor, complaint);
  Cut(descriptor);
  errno = ECONNRESET;
  return -1;
}
