// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/net/foreign_descriptors.h"
#include "server/net/unix_socket.h"
#include "server/process/process.h"

namespace warpfold::server {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
// How many attempts are made to find a port that is free on all addresses of a name.
constexpr int kMaxTries = 16;

// How long a peer may leave what we send unacknowledged before its connection is given up.
constexpr int kUserTimeoutMs = 10'000;

absl::Status Refusal(absl::string_view reason) { return absl::InvalidArgumentError(reason); }
absl::Status SystemRefusal() {
  // The system does not have this kind of address.
  if (errno == EAFNOSUPPORT) return absl::UnimplementedError(std::strerror(errno));
  // An interface may get its address later.
  if (errno == EADDRNOTAVAIL) return absl::UnavailableError(std::strerror(errno));
  return Refusal(std::strerror(errno));
}

absl::StatusOr<int> NewSocket(int family) {
  const int made = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return SystemRefusal();
  return made;
}

absl::Status BindAndListen(int socket, const sockaddr* address, socklen_t size) {
  if (bind(socket, address, size) != 0) return SystemRefusal();
  if (listen(socket, SOMAXCONN) != 0) return SystemRefusal();
  return absl::OkStatus();
}

// Connections inherit these.
void SetTcpOptions(int socket, int family) {
  const int on = 1;
  const int off = 0;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
  if (family == AF_INET6) setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
}

int BoundPort(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // The port is at the same place in addresses of both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// A host without the brackets of IPv6, and a port.
std::pair<std::string, std::string> HostAndPort(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

absl::StatusOr<std::shared_ptr<addrinfo>> Find(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error == EAI_SYSTEM) return SystemRefusal();
  // A scope ("fe80::1%eth0") is the name of an interface, which may appear later.
  const bool may_come = error == EAI_AGAIN || (error == EAI_NONAME && host.find('%') != std::string::npos);
  if (may_come) return absl::UnavailableError(gai_strerror(error));
  if (error != 0) return Refusal(gai_strerror(error));
  return std::shared_ptr<addrinfo>(found, freeaddrinfo);
}

absl::StatusOr<int> ListenOn(int family, const sockaddr* address, socklen_t size) {
  const absl::StatusOr<int> made = NewSocket(family);
  if (!made.ok()) return made;
  SetTcpOptions(*made, family);
  if (absl::Status status = BindAndListen(*made, address, size); !status.ok()) {
    close(*made);
    return status;
  }
  return made;
}

bool IsLoopback(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  const auto is_loopback = [](const std::uint8_t* ipv4) { return ipv4[0] == 127; };
  if (address.ss_family == AF_INET) {
    return is_loopback(
        reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr));
  }
  const in6_addr& ipv6 = reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ipv6) || (IN6_IS_ADDR_V4MAPPED(&ipv6) && is_loopback(&ipv6.s6_addr[12]));
}

// The machine does not have the address, or its kind: nobody else can have it, either.
bool IsMissing(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnimplemented(status);
}

bool IsSameHost(const addrinfo& a, const addrinfo& b) {
  if (a.ai_family != b.ai_family) return false;
  if (a.ai_family == AF_INET) {
    const auto ipv4 = [](const addrinfo& info) {
      return reinterpret_cast<const sockaddr_in*>(info.ai_addr)->sin_addr.s_addr;
    };
    return ipv4(a) == ipv4(b);
  }
  const auto* const left = reinterpret_cast<const sockaddr_in6*>(a.ai_addr);
  const auto* const right = reinterpret_cast<const sockaddr_in6*>(b.ai_addr);
  return IN6_ARE_ADDR_EQUAL(&left->sin6_addr, &right->sin6_addr) &&
         left->sin6_scope_id == right->sin6_scope_id;
}

// Whether the list has the address before `info`: a file of hosts may name one twice.
bool IsRepeated(const addrinfo* first, const addrinfo* info) {
  while (first != info && !IsSameHost(*first, *info)) first = first->ai_next;
  return first != info;
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

absl::StatusOr<Listener> Listener::Resolve(const std::string& address) {
  Listener listener(address);
  if (listener.is_unix()) return listener;
  const auto [host, port] = HostAndPort(address);
  absl::StatusOr<std::shared_ptr<addrinfo>> found = Find(host, port);
  if (!found.ok()) return listener.Named(found.status());
  listener.found_ = *std::move(found);
  return listener;
}

absl::Status Listener::Listen() { return Named(is_unix() ? ListenUnix() : ListenTcp()); }

absl::Status Listener::Named(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(address_, ": ", status.message()));
}

Listener::Listener(Listener&& other) noexcept
    : address_(std::move(other.address_)),
      found_(std::move(other.found_)),
      sockets_(std::exchange(other.sockets_, {})),
      inode_(std::exchange(other.inode_, 0)) {}

Listener::~Listener() { Close(); }

bool Listener::is_local() const {
  return is_unix() || std::all_of(sockets_.begin(), sockets_.end(), IsLoopback);
}

bool Listener::is_unix() const { return absl::StartsWith(address_, kUnixPrefix); }

void Listener::Close() {
  const std::string path = is_unix() ? address_.substr(kUnixPrefix.size()) : "";
  if (inode_ != 0 && InodeOfSocket(path) == inode_) unlink(path.c_str());
  inode_ = 0;
  for (const int socket : sockets_) {
    // Clients that are still waiting to be accepted may have sent something.
    if (is_unix()) shutdown(socket, SHUT_RDWR);
    CloseSocket(FileDescriptor(socket));
  }
  sockets_.clear();
}

absl::Status Listener::ListenUnix() {
  const std::string path = address_.substr(kUnixPrefix.size());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Refusal("the path is too long for a socket");
  path.copy(address.sun_path, path.size());
  struct stat file = {};
  if (lstat(path.c_str(), &file) == 0 && !S_ISSOCK(file.st_mode)) {
    return Refusal(absl::StrCat("there is ", KindOfFile(file.st_mode), " at this path, and not a socket"));
  }
  const FolderLock lock(path);
  if (UnixSocketInUse(path)) return Refusal("another server listens on it, or this one under another path");
  if (InodeOfSocket(path) != 0) unlink(path.c_str());
  const absl::StatusOr<int> made = NewSocket(AF_UNIX);
  if (!made.ok()) return made.status();
  sockets_.push_back(*made);
  RefuseDescriptors(*made);
  if (bind(*made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return SystemRefusal();
  inode_ = InodeOfSocket(path);
  return listen(*made, SOMAXCONN) == 0 ? absl::OkStatus() : SystemRefusal();
}

// On all addresses of the name, at the same port: a free one is chosen by the first address and then asked
// for on the others. The machine may lack some of the addresses, or a kind of them, as long as it has one;
// but an address that another process has, or that the system forbids, would lead clients of the name
// elsewhere.
absl::Status Listener::ListenOnFound(int port) {
  absl::Status missing;
  for (addrinfo* info = found_.get(); info != nullptr; info = info->ai_next) {
    if (IsRepeated(found_.get(), info)) continue;
    // The port is at the same place in addresses of both families.
    reinterpret_cast<sockaddr_in*>(info->ai_addr)->sin_port =
        htons(static_cast<std::uint16_t>(sockets_.empty() ? port : BoundPort(sockets_[0])));
    const absl::StatusOr<int> made = ListenOn(info->ai_family, info->ai_addr, info->ai_addrlen);
    if (made.ok()) {
      sockets_.push_back(*made);
    } else if (IsMissing(made.status())) {
      missing = made.status();
    } else {
      Close();
      return made.status();
    }
  }
  return sockets_.empty() ? missing : absl::OkStatus();
}

absl::Status Listener::ListenTcp() {
  const auto [host, port] = HostAndPort(address_);
  if (IsWildcard(host)) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    const absl::StatusOr<int> both = ListenOn(AF_INET6, reinterpret_cast<const sockaddr*>(&any), sizeof(any));
    if (both.ok()) sockets_.push_back(*both);
    // IPv4 alone would lead clients elsewhere, if another process has the port of IPv6.
    if (!both.ok() && !IsMissing(both.status())) return both.status();
  }
  if (sockets_.empty()) {
    absl::Status status = ListenOnFound(std::stoi(port));
    for (int tries = 1; !status.ok() && std::stoi(port) == 0 && tries < kMaxTries; ++tries) {
      status = ListenOnFound(0);  // a port that is free on one address may not be on another
    }
    if (!status.ok()) return status;
  }
  address_ = absl::StrCat(address_.substr(0, address_.rfind(':') + 1), BoundPort(sockets_[0]));
  return absl::OkStatus();
}

}  // namespace warpfold::server
