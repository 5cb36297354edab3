// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "server/core/admission/party.h"
#include "server/net/unix_socket.h"

namespace warpfold::server {
namespace {

// RemoveClosed asks the system about each connection. It is done seldom, so that clients that are refused
// again and again cannot keep the server busy with it.
constexpr auto kIdleCheckInterval = std::chrono::milliseconds(20);

bool Identify(int descriptor, struct stat* info) {
  return fstat(descriptor, info) == 0 && S_ISSOCK(info->st_mode);
}

// The name has no family if the connection has broken.
sockaddr_storage NameOf(int descriptor) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return address;
}

}  // namespace

bool Connections::HasRoom(const std::string& peer) {
  const auto has_room = [&] { return connections_.size() < most_ && CountOf(peer) < most_of_a_peer_; };
  if (has_room()) return true;
  const auto now = std::chrono::steady_clock::now();
  if (now - checked_at_ < kIdleCheckInterval) return false;
  checked_at_ = now;
  RemoveClosed();
  return has_room();
}

void Connections::Add(int descriptor, const std::string& peer) {
  if (const auto old = connections_.find(descriptor); old != connections_.end()) Remove(old);
  struct stat info = {};
  if (!Identify(descriptor, &info)) return;
  connections_[descriptor] = {.peer = peer, .device = info.st_dev, .inode = info.st_ino};
  ++of_peers_[peer];
}

std::size_t Connections::CountOf(const std::string& peer) const {
  const auto found = of_peers_.find(peer);
  return found == of_peers_.end() ? 0 : found->second;
}

void Connections::RemoveClosed() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto here = at++;
    const Connection& known = here->second;
    struct stat info = {};
    const bool open = Identify(here->first, &info);
    if (!open || info.st_dev != known.device || info.st_ino != known.inode) Remove(here);
  }
}

void Connections::Remove(std::map<int, Connection>::iterator at) {
  const auto peer = of_peers_.find(at->second.peer);
  if (--peer->second == 0) of_peers_.erase(peer);
  connections_.erase(at);
}

std::string PeerOf(int descriptor) {
  const sockaddr_storage address = NameOf(descriptor);
  if (address.ss_family == AF_INET) return HostOf(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  if (address.ss_family == AF_INET6) return HostOf(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  if (address.ss_family != AF_UNIX) return "";
  const std::optional<uid_t> user = PeerUser(descriptor);
  return user.has_value() ? absl::StrCat("unix:", *user) : "unix:unknown";
}

std::string AddressOf(int descriptor) {
  const sockaddr_storage address = NameOf(descriptor);
  if (address.ss_family != AF_INET) return PeerOf(descriptor);
  char text[INET_ADDRSTRLEN] = {};
  return inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof(text));
}

}  // namespace warpfold::server
