// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace warpfold::server {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  UnixSocketTest() {
    std::string folder = testing::TempDir() + "warpfold_process_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~UnixSocketTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ / "socket"; }

  // A socket that is bound to the path, and listens with a queue of this length.
  int Listen(int type, int queue) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int socket_here = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(socket_here, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_here, queue), 0);
    return socket_here;
  }

  std::filesystem::path folder_;
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

TEST(SignalsDuringStartTest, EndTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto start = [] {
    HoldSignals();
    const SignalsDuringStart signals;
    kill(getpid(), SIGTERM);
    while (true) pause();
  };
  EXPECT_EXIT(start(), testing::KilledBySignal(SIGTERM), "");
}

TEST(SignalsDuringStartTest, AreHeldAfterIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto serve = [] {
    HoldSignals();
    std::optional<SignalsDuringStart> signals(std::in_place);
    signals.reset();
    kill(getpid(), SIGTERM);
    std::_Exit(AwaitEnd([] { return false; }) ? 7 : 8);
  };
  EXPECT_EXIT(serve(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace warpfold::server
