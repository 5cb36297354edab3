// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/shared/send_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "client/client.h"
#include "tests/temporary_folder.h"

namespace warpfold {
namespace {

int SendBuffer(int descriptor) {
  int bytes = 0;
  socklen_t size = sizeof(bytes);
  EXPECT_EQ(getsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, &size), 0);
  return bytes;
}

// The send buffer of a Unix socket that nobody has changed.
int UsualSendBuffer() {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int bytes = SendBuffer(descriptor);
  close(descriptor);
  return bytes;
}

// The kernel gives twice what it is asked for, if an administrator allows that much; otherwise it gives twice
// what is allowed. Before Linux 6.10 a container cannot read how much that is.
testing::Matcher<int> IsWide() {
  int most = 0;
  if (std::ifstream("/proc/sys/net/core/wmem_max") >> most) {
    return testing::Eq(2 * std::min(most, kUnixSendBufferBytes));
  }
  return testing::AllOf(testing::Gt(UsualSendBuffer()), testing::Le(2 * kUnixSendBufferBytes));
}

TEST(SendBufferTest, OfAUnixSocketIsWidened) {
  std::array<int, 2> pair = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  WidenSendBuffer(pair[0]);
  EXPECT_THAT(SendBuffer(pair[0]), IsWide());
  for (const int descriptor : pair) close(descriptor);
}

TEST(SendBufferTest, OfAUnixSocketThatHasMoreStaysAsItIs) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int more = 2 * kUnixSendBufferBytes;
  setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &more, sizeof(more));
  const int before = SendBuffer(descriptor);
  if (before <= 2 * kUnixSendBufferBytes) GTEST_SKIP() << "net.core.wmem_max allows no more";
  WidenSendBuffer(descriptor);
  EXPECT_EQ(SendBuffer(descriptor), before);
  close(descriptor);
}

// The kernel grows the buffer of a TCP socket by itself, but not once a size was set.
TEST(SendBufferTest, OfATcpSocketIsLeftToTheKernel) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(descriptor, 0);
  const int before = SendBuffer(descriptor);
  WidenSendBuffer(descriptor);
  EXPECT_EQ(SendBuffer(descriptor), before);
  close(descriptor);
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// The socket of this process that is connected to the path.
std::optional<int> ConnectedTo(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    sockaddr_un peer = {};
    socklen_t size = sizeof(peer);
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sun_family == AF_UNIX && path == peer.sun_path) return descriptor;
  }
  return std::nullopt;
}

TEST(SendBufferTest, OfAClientsConnectionIsWidened) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("socket");
  const sockaddr_un address = AddressOf(path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  Client client("unix:" + path);
  // Nobody responds; the connection stays until the client goes, or gRPC gives up connecting after 3 s.
  EXPECT_FALSE(client.GetServerInfo({.timeout = absl::Milliseconds(200)}).ok());
  const std::optional<int> connection = ConnectedTo(path);
  ASSERT_TRUE(connection.has_value());
  EXPECT_THAT(SendBuffer(*connection), IsWide());
  close(listener);
}

}  // namespace
}  // namespace warpfold
