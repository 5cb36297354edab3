// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/cli/bench/raw_socket.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/shared/send_buffer.h"

namespace warpfold::cli {
namespace {

constexpr char kUnixPrefix[] = "unix:";
constexpr int kBacklog = 1024;

struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

std::optional<Address> ParseUnix(const std::string& path) {
  sockaddr_un unix_address = {};
  unix_address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(unix_address.sun_path)) return std::nullopt;
  path.copy(unix_address.sun_path, path.size());
  Address address;
  std::memcpy(&address.bytes, &unix_address, sizeof(unix_address));
  address.size = sizeof(unix_address);
  return address;
}

std::optional<Address> ParseIpv4(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::uint32_t port = 0;
  sockaddr_in ip_address = {};
  ip_address.sin_family = AF_INET;
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port > 65535 ||
      inet_pton(AF_INET, text.substr(0, colon).c_str(), &ip_address.sin_addr) != 1) {
    return std::nullopt;
  }
  ip_address.sin_port = htons(static_cast<std::uint16_t>(port));
  Address address;
  std::memcpy(&address.bytes, &ip_address, sizeof(ip_address));
  address.size = sizeof(ip_address);
  return address;
}

std::optional<Address> ParseAddress(const std::string& text) {
  return absl::StartsWith(text, kUnixPrefix) ? ParseUnix(text.substr(std::strlen(kUnixPrefix)))
                                             : ParseIpv4(text);
}

}  // namespace

absl::StatusOr<RawSocket> RawSocket::Connect(const std::string& address) {
  const std::optional<Address> parsed = ParseAddress(address);
  if (!parsed.has_value()) return absl::InvalidArgumentError(absl::StrCat(address, " is not an address"));
  RawSocket socket(::socket(parsed->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.descriptor_, parsed->get(), parsed->size) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot connect to ", address));
  }
  socket.SendWithoutDelay();
  WidenSendBuffer(socket.descriptor_);
  return socket;
}

absl::StatusOr<RawSocket> RawSocket::Listen(const std::string& address) {
  const std::optional<Address> parsed = ParseAddress(address);
  if (!parsed.has_value()) return absl::InvalidArgumentError(absl::StrCat(address, " is not an address"));
  RawSocket socket(::socket(parsed->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(socket.descriptor_, parsed->get(), parsed->size) != 0 ||
      listen(socket.descriptor_, kBacklog) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  }
  return socket;
}

RawSocket::RawSocket(RawSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RawSocket::~RawSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<RawSocket> RawSocket::Accept() {
  RawSocket socket(accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.descriptor_ < 0) return absl::UnavailableError("cannot accept a connection");
  socket.SendWithoutDelay();
  return socket;
}

void RawSocket::Shutdown() { shutdown(descriptor_, SHUT_RDWR); }

std::string RawSocket::address() const {
  Address own;
  own.size = sizeof(own.bytes);
  getsockname(descriptor_, reinterpret_cast<sockaddr*>(&own.bytes), &own.size);
  if (own.bytes.ss_family == AF_UNIX) {
    return absl::StrCat(kUnixPrefix, reinterpret_cast<const sockaddr_un*>(&own.bytes)->sun_path);
  }
  const auto* ip = reinterpret_cast<const sockaddr_in*>(&own.bytes);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &ip->sin_addr, text, sizeof(text));
  return absl::StrCat(text, ":", ntohs(ip->sin_port));
}

// A Unix socket has no such option, and no delay.
void RawSocket::SendWithoutDelay() const {
  const int on = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

absl::Status RawSocket::Send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return absl::UnavailableError("the connection broke");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status RawSocket::Receive(std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const ssize_t received = recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (received == 0) return absl::OutOfRangeError("the peer has closed the connection");
    if (received < 0) return absl::UnavailableError("the connection broke");
    buffer = buffer.subspan(static_cast<std::size_t>(received));
  }
  return absl::OkStatus();
}

}  // namespace warpfold::cli
