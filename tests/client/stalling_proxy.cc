// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/client/stalling_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>

namespace warpfold {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool IsReady(int socket, short event, int timeout_ms) {
  pollfd poll_fd = {socket, event, 0};
  return poll(&poll_fd, 1, timeout_ms) == 1;
}

}  // namespace

StallingProxy::StallingProxy(int upstream_port, const std::string& path) : upstream_port_(upstream_port) {
  listener_ = socket(path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // Small, so that a stall soon fills the client's buffers.
  const int receive_bytes = 64 << 10;
  setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  if (path.empty()) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    target_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  } else {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    unlink(path.c_str());
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    target_ = "unix:" + path;
  }
  EXPECT_EQ(listen(listener_, 16), 0);
  thread_ = std::thread([this] { Run(); });
}

StallingProxy::~StallingProxy() {
  ended_ = true;
  thread_.join();
  close(listener_);
  for (const auto& [client, server] : pairs_) {
    close(client);
    close(server);
  }
}

void StallingProxy::Run() {
  while (!ended_) {
    if (bytes_left_ <= 0) {
      poll(nullptr, 0, 1);
      continue;
    }
    if (IsReady(listener_, POLLIN, 0)) Accept();
    bool idle = true;
    for (const auto& [client, server] : pairs_) {
      if (IsReady(client, POLLIN, 0)) idle = !Forward(client, server) && idle;
      if (IsReady(server, POLLIN, 0)) idle = !Forward(server, client) && idle;
    }
    if (idle) poll(nullptr, 0, 1);
  }
}

void StallingProxy::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (std::ssize(pairs_) >= most_) {
    ++refused_;
    close(client);
    return;
  }
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(upstream_port_);
  EXPECT_EQ(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  pairs_.emplace_back(client, server);
}

bool StallingProxy::Forward(int from, int to) {
  std::array<char, 64 << 10> buffer;
  const ssize_t size = recv(from, buffer.data(), buffer.size(), 0);
  if (size <= 0) return false;
  if (swallows_) return true;
  bytes_left_ -= size;
  for (ssize_t sent = 0; sent < size && !ended_;) {
    if (!IsReady(to, POLLOUT, 10)) continue;
    const ssize_t part = send(to, &buffer[static_cast<std::size_t>(sent)],
                              static_cast<std::size_t>(size - sent), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (part < 0) return false;
    sent += part;
  }
  return true;
}

}  // namespace warpfold
