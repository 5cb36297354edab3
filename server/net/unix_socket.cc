// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"

namespace warpfold::server {
namespace {

constexpr int kBacklog = 64;

absl::Status Failed(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

// The number that stands for all users who are not of this process' user namespace; nothing where all are.
std::optional<uid_t> NumberOfStrangers() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t first = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  if (!map.is_open()) return std::nullopt;  // the kernel has no user namespaces
  if ((map >> first >> outside >> count) && first == 0 && count == UINT32_MAX) return std::nullopt;
  uid_t number = 65534;
  std::ifstream("/proc/sys/kernel/overflowuid") >> number;
  return number;
}

bool AddressOf(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address->sun_path)) return false;
  path.copy(address->sun_path, path.size());
  return true;
}

// Takes a message, or with MSG_PEEK looks at it: then its descriptors stay with it, and packet->descriptor is
// a copy.
Received Read(const FileDescriptor& connection, int flags, Packet* packet) {
  std::array<char, kMaxPacketBytes> bytes;
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_LEN(sizeof(int))> control;
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = recvmsg(connection.get(), &header, flags | MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? Received::kNothingYet : Received::kEnd;
  *packet = {};
  const cmsghdr* const first = CMSG_FIRSTHDR(&header);
  if (first != nullptr && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(first), sizeof(fd));
    packet->descriptor = FileDescriptor(fd);
  }
  packet->has_more_descriptors = (header.msg_flags & MSG_CTRUNC) != 0;
  packet->is_truncated = (header.msg_flags & MSG_TRUNC) != 0;
  packet->bytes.assign(bytes.data(), static_cast<std::size_t>(size));
  const bool is_empty = size == 0 && !packet->descriptor.is_open() && !packet->has_more_descriptors;
  return is_empty ? Received::kEnd : Received::kPacket;
}

// Only files in memory have seals, and their close waits for nobody.
bool IsTakenSafely(const Packet& packet) {
  const bool is_in_memory = fcntl(packet.descriptor.get(), F_GET_SEALS) >= 0;
  return !packet.has_more_descriptors && (!packet.descriptor.is_open() || is_in_memory);
}

}  // namespace

absl::StatusOr<FileDescriptor> ListenAt(const std::string& path) {
  sockaddr_un address;
  if (!AddressOf(path, &address)) return absl::UnavailableError("the path is too long for a socket");
  const FolderLock lock(path);
  struct stat file = {};
  if (lstat(path.c_str(), &file) == 0) {
    if (!S_ISSOCK(file.st_mode)) return absl::UnavailableError("there is a file that is not a socket");
    if (UnixSocketInUse(path)) return absl::UnavailableError("another process listens there");
    unlink(path.c_str());
  }
  FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_open()) return Failed("no socket", errno);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Failed("cannot be bound", errno);
  }
  // The file's mode lets everybody connect: the socket checks the peer's user.
  chmod(path.c_str(), 0666);
  if (listen(listener.get(), kBacklog) != 0) return Failed("cannot be listened on", errno);
  return listener;
}

FolderLock::FolderLock(const std::string& path) {
  constexpr int kTries = 1000;
  constexpr auto kPause = std::chrono::milliseconds(1);
  const std::string folder = std::filesystem::path(path).parent_path();
  folder_ = FileDescriptor(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < kTries && folder_.is_open(); ++i) {
    if (flock(folder_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    std::this_thread::sleep_for(kPause);
  }
}

bool UnixSocketInUse(const std::string& path) {
  sockaddr_un address;
  if (!AddressOf(path, &address)) return false;  // no socket can be there
  // Otherwise this would wait for a listener that is stopped and whose backlog is full.
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.is_open()) return true;
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return true;
  // A socket of another type (EPROTOTYPE), or one whose backlog is full (EAGAIN), has a listener as well.
  return errno != ECONNREFUSED && errno != ENOENT;
}

std::uint64_t InodeOfSocket(const std::string& path) {
  struct stat file = {};
  return lstat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode) ? file.st_ino : 0;
}

FileDescriptor Accept(const FileDescriptor& listener, bool* failed) {
  FileDescriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  *failed = !connection.is_open() && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
  return connection;
}

std::optional<uid_t> PeerUser(int socket) {
  static const std::optional<uid_t> of_strangers = NumberOfStrangers();
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid == of_strangers ? std::nullopt : std::optional(peer.uid);
}

Received Receive(const FileDescriptor& connection, Packet* packet) {
  const Received looked = Read(connection, MSG_PEEK, packet);
  if (looked != Received::kPacket || IsTakenSafely(*packet)) {
    return looked == Received::kPacket ? Read(connection, 0, packet) : looked;
  }
  return Received::kForeign;
}

bool SendPacket(const FileDescriptor& connection, const std::string& bytes, int descriptor) {
  iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  return sendmsg(connection.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace warpfold::server
