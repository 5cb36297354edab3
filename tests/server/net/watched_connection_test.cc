// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/watched_connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/net/connections.h"
#include "server/net/file_descriptor.h"
#include "server/net/foreign_descriptors.h"
#include "server/net/peer_allowances.h"
#include "server/net/watched_sockets.h"

namespace warpfold::server {
namespace {

constexpr int kCalls = 64;  // of a connection
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(int type, int flags, int stream, const std::string& payload = "") {
  std::string frame(9, '\0');
  frame[2] = static_cast<char>(payload.size());
  frame[3] = static_cast<char>(type);
  frame[4] = static_cast<char>(flags);
  frame[8] = static_cast<char>(stream);
  return frame + payload;
}

// No client may send these bytes: they acknowledge the server's settings before the server has sent any.
std::string Offence() { return std::string(kPreface) + Frame(kSettings, kAck, 0); }

// What gRPC would read from the socket, or the name of the error that it would get.
std::string Receive(int descriptor) {
  std::string bytes(64, '\0');
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t size = recvmsg(descriptor, &message, 0);
  if (size < 0) return strerrorname_np(errno);
  return bytes.substr(0, static_cast<std::size_t>(size));
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
    std::string bytes = std::string(kPreface) + Frame(kSettings, kAck, 0);
    for (int call = 0; call < kCalls; ++call) bytes += Frame(kHeaders, 4, 2 * call + 1, "\x82");
    EXPECT_EQ(connection.TakeReceived(std::as_bytes(std::span(bytes))), nullptr);
  }
  void End(WatchedConnection& connection) {
    std::string bytes;
    for (int call = 0; call < kCalls; ++call) bytes += Frame(kHeaders, kEndStream | 4, 2 * call + 1, "\x82");
    connection.TakeSent(std::as_bytes(std::span(bytes)));
  }
  // Closes the socket. Its descriptor is then that of one end of another pair, and other_end_ is that pair's.
  void ReplaceSocket() {
    const int number = socket_.get();
    FileDescriptor before = std::move(other_end_);
    std::array<int, 2> sockets = {};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
    socket_ = FileDescriptor();
    while (fcntl(number, F_GETFD) != -1) std::this_thread::yield();  // another thread may be closing it
    ASSERT_EQ(dup2(sockets[0], number), number);
    ASSERT_EQ(close(sockets[0]), 0);
    socket_ = FileDescriptor(number);
    other_end_ = FileDescriptor(sockets[1]);
  }
  void Send(const std::string& bytes) {
    ASSERT_EQ(send(other_end_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
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
    told.End();
  }
  EXPECT_TRUE(MayConnect());
  // TLS has encrypted the data, but the system has not taken it.
  for (int i = 0; i < kConnections; ++i) {
    WatchedConnection left(socket_.get());
    Begin(left);
    End(left);
    left.End();
    left.End();  // counts once
  }
  EXPECT_FALSE(MayConnect());
}

TEST_F(WatchedConnectionTest, WhatIsWatchedIsCutForWhatItsClientSends) {
  WatchSocket(socket_.get());
  Send(Offence());
  EXPECT_EQ(Receive(socket_.get()), "ECONNRESET");
}

// A look at the bytes that lie there, which is for descriptors that come with them, passes over such a byte.
TEST_F(WatchedConnectionTest, AByteOutOfBandIsReadWithTheOthers) {
  WatchSocket(socket_.get());
  if (send(other_end_.get(), "P", 1, MSG_OOB) != 1) GTEST_SKIP() << "the kernel has no such bytes here";
  EXPECT_EQ(Receive(socket_.get()), "P");
}

TEST_F(WatchedConnectionTest, DescriptorsThatComeOutOfBandAreSeen) {
  WatchSocket(socket_.get());
  std::string bytes = "P";
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int own = other_end_.get();
  std::memcpy(CMSG_DATA(rights), &own, sizeof(own));
  if (sendmsg(own, &message, MSG_OOB) != 1) GTEST_SKIP() << "the kernel has no such bytes here";
  EXPECT_EQ(Receive(socket_.get()), "ECONNRESET");
}

// Another socket has the number at once, for example one of the page's clients, which are not watched.
TEST_F(WatchedConnectionTest, WhatIsClosedIsNoLongerWatched) {
  const int number = socket_.get();
  WatchSocket(number);
  ReplaceSocket();
  ASSERT_EQ(socket_.get(), number);
  Send(Offence());
  EXPECT_EQ(Receive(number), Offence());
}

TEST_F(WatchedConnectionTest, AConnectionThatHasEndedDoesNotCutWhoeverHasItsDescriptor) {
  const int number = socket_.get();
  const std::shared_ptr<WatchedConnection> connection = WatchEncryptedSocket(number);
  ReplaceSocket();
  ASSERT_EQ(socket_.get(), number);
  connection->Cut("what nobody should");
  Send(Offence());
  EXPECT_EQ(Receive(number), Offence());
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
