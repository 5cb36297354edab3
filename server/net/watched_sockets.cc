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
#include "server/core/clock.h"
#include "server/log/log_sampler.h"
#include "server/log/logging.h"
#include "server/net/connections.h"
#include "server/net/foreign_descriptors.h"
#include "server/net/frame_watch.h"
#include "server/net/peer_allowances.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kMostWatched = 65'536;

// A connection. One thread at a time reads from it, and none does when its descriptor is given to the next
// connection, since gRPC has then closed it.
struct Watched {
  ino_t inode = 0;
  bool may_bring_descriptors = false;
  std::atomic<bool> server_speaks = false;
  std::shared_ptr<PeerAllowances> of_peer;
  FrameWatch frames;
  CallEnds ends;
  bool is_over = false;
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

// Null where the descriptor is not watched. Else it was once a watched connection, and IsStill says whether
// it is one now.
Watched* WatchedAt(int descriptor) {
  return HasPlace(descriptor) ? watched[descriptor].load(std::memory_order_acquire) : nullptr;
}

bool IsStill(const Watched& connection, int descriptor) { return InodeOf(descriptor) == connection.inode; }

void Replace(int descriptor, std::unique_ptr<Watched> by) {
  if (HasPlace(descriptor)) delete watched[descriptor].exchange(by.release());
}

void Complain(int descriptor, const char* complaint) {
  static LogSampler& sampler = *new LogSampler;  // there may be readers until the process ends
  static const Clock& clock = *new Clock(MonotonicClock());
  const absl::Time now = clock();
  for (const auto& [kind, connections] : sampler.TakeLeftOut(now)) {
    Log(LogLevel::kWarning, absl::StrCat("closed ", connections, " more connections that sent ", kind));
  }
  if (!sampler.Admit(complaint, now)) return;
  Log(LogLevel::kWarning,
      absl::StrCat("closed a connection of ", AddressOf(descriptor), ": it sends ", complaint));
}

// The connections of all peers, until the process ends.
AllPeersAllowances& OfPeers() {
  static AllPeersAllowances& of_peers = *new AllPeersAllowances;
  return of_peers;
}

// Null, or what is wrong with the `size` bytes that were read into `message`.
const char* Inspect(Watched& connection, const msghdr& message, std::size_t size) {
  const auto now = std::chrono::steady_clock::now();
  if (connection.server_speaks.load(std::memory_order_acquire)) connection.frames.ServerSpeaks();
  const std::uint64_t resets_before = connection.frames.resets();
  const std::uint64_t small_frames_before = connection.frames.small_frames();
  const char* complaint = nullptr;
  for (std::size_t i = 0; i < message.msg_iovlen && size > 0 && complaint == nullptr; ++i) {
    const iovec& part = message.msg_iov[i];
    const std::size_t n = std::min(part.iov_len, size);
    size -= n;
    complaint = connection.frames.Take({static_cast<const std::byte*>(part.iov_base), n}, now);
  }
  if (complaint != nullptr) return complaint;
  PeerAllowances& of_peer = *connection.of_peer;
  const std::uint64_t resets = connection.frames.resets() - resets_before;
  if (resets > 0 && !of_peer.SpendResets(static_cast<double>(resets), now)) {
    return "calls that are taken back, as its peer's other connections do";
  }
  const std::uint64_t small_frames = connection.frames.small_frames() - small_frames_before;
  if (small_frames > 0 && !of_peer.SpendSmallFrames(static_cast<double>(small_frames), now)) {
    return "its data in frames of a few bytes";
  }
  return nullptr;
}

// Takes so many bytes off the socket; they have been read before.
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
// taken: taking them would mean to close the descriptors, or to have them in this process.
ssize_t ReadButDescriptors(int descriptor, msghdr* message, bool* brings_descriptors) {
  message->msg_control = nullptr;
  message->msg_controllen = 0;
  const ssize_t size = syscall(SYS_recvmsg, descriptor, message, MSG_PEEK);
  if (size < 0) return size;
  *brings_descriptors = (message->msg_flags & MSG_CTRUNC) != 0;
  if (!*brings_descriptors) Drop(descriptor, static_cast<std::size_t>(size));
  return size;
}

// The connection is being closed, and with it the calls that are under way.
void CountLeftCalls(Watched& connection) {
  if (std::exchange(connection.is_over, true)) return;
  const std::uint64_t over = connection.ends.count() + connection.frames.resets();
  const std::uint64_t left = connection.frames.calls() - std::min(connection.frames.calls(), over);
  if (left > 0) connection.of_peer->SpendResets(static_cast<double>(left), std::chrono::steady_clock::now());
}

void TakeSent(Watched& connection, const msghdr& message, std::size_t size) {
  for (std::size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const std::size_t n = std::min(part.iov_len, size);
    size -= n;
    connection.ends.Take({static_cast<const std::byte*>(part.iov_base), n});
  }
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
  connection->may_bring_descriptors = MayBringDescriptors(descriptor);
  connection->of_peer = OfPeers().Of(PeerOf(descriptor), std::chrono::steady_clock::now());
  Replace(descriptor, std::move(connection));
}

void LeaveSocketUnwatched(int descriptor) { Replace(descriptor, nullptr); }

bool MayConnect(const std::string& peer) {
  const auto now = std::chrono::steady_clock::now();
  return OfPeers().Of(peer, now)->HasSome(now);
}

std::uint64_t FloodsClosed() { return floods_closed; }

}  // namespace warpfold::server

// These replace the C library's functions. gRPC reads without flags.
extern "C" ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  Watched* const connection = flags == 0 ? WatchedAt(descriptor) : nullptr;
  bool brings_descriptors = false;
  // The descriptor may by now belong to a socket that does not carry HTTP/2.
  const ssize_t size =
      connection != nullptr && connection->may_bring_descriptors && IsStill(*connection, descriptor)
          ? ReadButDescriptors(descriptor, message, &brings_descriptors)
          : syscall(SYS_recvmsg, descriptor, message, flags);
  if (size < 0 || connection == nullptr) return size;
  const char* const complaint =
      brings_descriptors ? "descriptors" : Inspect(*connection, *message, static_cast<std::size_t>(size));
  if (complaint == nullptr || !IsStill(*connection, descriptor)) return size;
  Complain(descriptor, complaint);
  Cut(descriptor);
  errno = ECONNRESET;
  return -1;
}

extern "C" ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  Watched* const connection = WatchedAt(descriptor);
  if (connection != nullptr) connection->server_speaks.store(true, std::memory_order_release);
  const ssize_t size = syscall(SYS_sendmsg, descriptor, message, flags);
  if (connection != nullptr && size > 0) TakeSent(*connection, *message, static_cast<std::size_t>(size));
  return size;
}

extern "C" int close(int descriptor) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  Watched* const connection = WatchedAt(descriptor);
  const bool is_watched = connection != nullptr && IsStill(*connection, descriptor);
  if (is_watched) CountLeftCalls(*connection);
  if (!is_watched || !connection->may_bring_descriptors) {
    return static_cast<int>(syscall(SYS_close, descriptor));
  }
  CloseSocket(FileDescriptor(descriptor));
  return 0;
}
