// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/unix_peers.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>

namespace warpfold::server {
namespace {

// The peer of a socket as gRPC names it.
std::string PeerOf(int descriptor) {
  sockaddr_un address = {};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_LE(size, sizeof(address));
  return "unix:" + std::string(address.sun_path);
}

TEST(UnixPeersTest, TheUserIsTheOneThatTheKernelNames) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  EXPECT_EQ(UserOfPeer(PeerOf(ends[0])), getuid());
  for (const int end : ends) close(end);
}

TEST(UnixPeersTest, NobodyElseCanMakeSuchAName) {
  for (const char* peer : {"", "unix:", "unix:0", "unix:/0", "unix:/00000000000000000000000000000000/0",
                           "ipv4:127.0.0.1:1000", "unix-abstract:/0"}) {
    EXPECT_EQ(UserOfPeer(peer), std::nullopt) << peer;
  }
  std::array<int, 2> ends = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const std::string peer = PeerOf(ends[0]);
  EXPECT_EQ(UserOfPeer(peer + "x"), std::nullopt);
  EXPECT_EQ(UserOfPeer(peer.substr(5)), std::nullopt);
  for (const int end : ends) close(end);
}

// Only as much is written as the caller has room for.
TEST(UnixPeersTest, AShortAddressIsCutOff) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  sockaddr_un address = {};
  socklen_t size = 10;
  EXPECT_EQ(getpeername(ends[0], reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_GT(size, 10u) << "how long it would be";
  EXPECT_EQ(std::string(address.sun_path).size(), 10 - offsetof(sockaddr_un, sun_path));
  for (const int end : ends) close(end);
  EXPECT_EQ(getpeername(ends[0], reinterpret_cast<sockaddr*>(&address), &size), -1);
}

TEST(UnixPeersTest, OtherSocketsAreAsTheyWere) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
  sockaddr_in peer = {};
  EXPECT_EQ(getpeername(client, reinterpret_cast<sockaddr*>(&peer), &size), 0);
  EXPECT_EQ(peer.sin_port, address.sin_port);
  close(client);
  close(listener);
}

}  // namespace
}  // namespace warpfold::server
