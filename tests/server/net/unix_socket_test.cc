// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/net/unix_socket.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/temporary_folder.h"

namespace warpfold::server {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  std::string path() const { return folder_.Path("socket"); }

  // Returns a socket that is bound to the path, and listens with a queue of this length.
  int Listen(int type, int queue) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int socket_here = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(socket_here, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_here, queue), 0);
    return socket_here;
  }

  const TemporaryFolder folder_;
};

TEST_F(UnixSocketTest, IsInUseWhereAProcessListensByAnyKindOfSocket) {
  EXPECT_FALSE(UnixSocketInUse(path()));
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const int listener = Listen(type, 1);
    EXPECT_TRUE(UnixSocketInUse(path())) << type;
    close(listener);
    EXPECT_FALSE(UnixSocketInUse(path())) << type;
    std::filesystem::remove(path());
  }
}

// A socket whose process is stopped is also in use.
TEST_F(UnixSocketTest, IsInUseWhereTheListenersQueueIsFull) {
  const int listener = Listen(SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int waiting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(waiting, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_TRUE(UnixSocketInUse(path()));
  close(waiting);
  close(listener);
}

// If the server cannot find out, it must not take the socket for one that a killed server has left.
TEST_F(UnixSocketTest, IsInUseWhereThatCannotBeFoundOut) {
  EXPECT_FALSE(UnixSocketInUse(path()));
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool in_use = UnixSocketInUse(path());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(in_use);
}

}  // namespace
}  // namespace warpfold::server
