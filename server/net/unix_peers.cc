// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/unix_peers.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/net/unix_socket.h"

namespace warpfold::server {
namespace {

std::string RandomPrefix() {
  std::array<char, 16> bytes = {};
  // Cannot fail, nor return less, for so few bytes once the system has started (getrandom(2)).
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  return absl::StrCat("/", absl::BytesToHexString({bytes.data(), bytes.size()}), "/");
}

const std::string& Prefix() {
  static const std::string& prefix = *new std::string(RandomPrefix());
  return prefix;
}

}  // namespace

std::optional<std::uint32_t> UserOfPeer(absl::string_view grpc_peer) {
  std::uint32_t user = 0;
  if (!absl::ConsumePrefix(&grpc_peer, "unix:") || !absl::ConsumePrefix(&grpc_peer, Prefix()) ||
      !absl::SimpleAtoi(grpc_peer, &user)) {
    return std::nullopt;
  }
  return user;
}

}  // namespace warpfold::server

// In place of the C library's.
extern "C" int getpeername(int descriptor, sockaddr* address, socklen_t* size) noexcept {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): the body belongs to it
  const socklen_t room = *size;
  if (syscall(SYS_getpeername, descriptor, address, size) != 0) return -1;
  if (*size < sizeof(sa_family_t) || address->sa_family != AF_UNIX) return 0;
  const std::optional<uid_t> user = PeerUser(descriptor);
  sockaddr_un named = {};
  named.sun_family = AF_UNIX;
  // If there is no user, the path to which the peer has bound its socket is not returned either: the peer
  // chooses that itself.
  const std::string path = user.has_value() ? absl::StrCat(Prefix(), *user) : Prefix();
  path.copy(named.sun_path, sizeof(named.sun_path) - 1);
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  std::memcpy(address, &named, std::min(room, *size));
  return 0;
}
