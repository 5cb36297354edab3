// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/watched_connection.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "server/net/connections.h"
#include "server/net/file_descriptor.h"
#include "server/net/foreign_descriptors.h"
#include "server/net/peer_allowances.h"
#include "server/net/watched_sockets.h"

namespace {

// The descriptor to whose file the file system has given this inode number.
int renumbered = -1;
ino_t inode_of_renumbered = 0;

}  // namespace

extern "C" int fstat(int descriptor, struct stat* info) noexcept {
  const long result = syscall(SYS_fstat, descriptor, info);
  if (result == 0 && descriptor == renumbered) info->st_ino = inode_of_renumbered;
  return static_cast<int>(result);
}

namespace warpfold::server {
namespace {

constexpr int kCalls = 64;  // of a connection

std::string Frame(int type, int flags, int stream, const std::string& payload = "") {
  std::string frame(9, '\0');
  frame[2] = static_cast<char>(payload.size());
  frame[3] = static_cast<char>(type);
  frame[4] = static_cast<char>(flags);
  frame[8] = static_cast<char>(stream);
  return frame + payload;
}

// Calls of a client that begins calls and leaves, over connections of one peer.
class WatchedConnectionTest : public testing::Test {
 protected:
  WatchedConnectionTest() {
    std::array<int, 2> sockets = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
    socket_ = FileDescriptor(sockets[0]);
    other_end_ = FileDescriptor(sockets[1]);
  }

  void Begin(WatchedConnection& connection) {
    connection.ServerSpeaks();
    std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, kAck, 0);
    for (int call = 0; call < kCalls; ++call) bytes += Frame(kHeaders, 4, 2 * call + 1, "\x82");
    EXPECT_EQ(connection.TakeReceived(std::as_bytes(std::span(bytes))), nullptr);
  }
  void End(WatchedConnection& connection) {
    std::string bytes;
    for (int call = 0; call < kCalls; ++call) bytes += Frame(kHeaders, kEndStream | 4, 2 * call + 1, "\x82");
    connection.TakeSent(std::as_bytes(std::span(bytes)));
  }
  bool MayConnect() const { return server::MayConnect(PeerOf(socket_.get())); }

  // Enough that the peer has spent its whole allowance, though it gets some back meanwhile.
  static constexpr int kConnections = 2 * static_cast<int>(PeerAllowances::kMaxResets) / kCalls;
  FileDescriptor socket_;
  FileDescriptor other_end_;
};

TEST_F(WatchedConnectionTest, CallsCountAsLeftUnlessTheirClientWasToldOfTheirEnd) {
  for (int i = 0; i < kConnections; ++i) {
    WatchedConnection told(socket_.get());
    Begin(told);
    End(told);
    told.ConfirmSent();
    told.CountLeftCalls();
  }
  EXPECT_TRUE(MayConnect());
  // TLS has encrypted the data, but the system has not taken it.
  for (int i = 0; i < kConnections; ++i) {
    WatchedConnection left(socket_.get());
    Begin(left);
    End(left);
    left.CountLeftCalls();
    left.CountLeftCalls();  // once
  }
  EXPECT_FALSE(MayConnect());
}

TEST_F(WatchedConnectionTest, ASocketIsThatOfItsConnectionUntilItIsClosed) {
  const int number = socket_.get();
  const WatchedConnection connection(number);
  EXPECT_TRUE(connection.IsStill());
  socket_ = FileDescriptor();
  EXPECT_FALSE(connection.IsStill());
}

// A file of another device may have the number of a socket that was closed, on the same descriptor. Its end
// is not the connection's, and it is no socket.
TEST_F(WatchedConnectionTest, AFileWithTheNumberOfASocketIsNotTheConnection) {
  const int number = socket_.get();
  struct stat info = {};
  ASSERT_EQ(fstat(number, &info), 0);
  const WatchedConnection connection(number);
  WatchSocket(number);  // by close, too
  ASSERT_EQ(syscall(SYS_close, socket_.Release()), 0);
  const FileDescriptor file(memfd_create("file", MFD_CLOEXEC));
  ASSERT_EQ(dup2(file.get(), number), number);
  renumbered = number;
  inode_of_renumbered = info.st_ino;
  EXPECT_FALSE(connection.IsStill());
  EXPECT_EQ(close(number), 0);
  EXPECT_EQ(fstat(number, &info), -1);
  renumbered = -1;
}

// CloseSocket is for sockets only, but closes whatever it is given.
TEST_F(WatchedConnectionTest, CloseSocketClosesAFile) {
  const int number = memfd_create("file", MFD_CLOEXEC);
  CloseSocket(FileDescriptor(number));
  struct stat info = {};
  EXPECT_EQ(fstat(number, &info), -1);
}

}  // namespace
}  // namespace warpfold::server
