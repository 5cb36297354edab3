// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A peer that accepts connections and ends them, such as a server that crashes with each call, or a proxy
// without a server behind it: each connection is made at once, but attempts still have pauses between them.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

class CrashingPeer {
 public:
  CrashingPeer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    target_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~CrashingPeer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  const std::string& target() const { return target_; }
  int connections() const { return connections_; }

 private:
  void Run() {
    constexpr std::array<char, 9> kSettings = {0, 0, 0, 4, 0, 0, 0, 0, 0};  // an empty frame (RFC 9113, 6.5)
    while (true) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      ++connections_;
      std::array<char, 4096> preface = {};
      EXPECT_GT(recv(connection, preface.data(), preface.size(), 0), 0);
      EXPECT_EQ(send(connection, kSettings.data(), kSettings.size(), MSG_NOSIGNAL), 9);
      close(connection);
    }
  }

  const int listener_;
  std::string target_;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

TEST(CrashingPeerTest, AttemptsHavePausesBetweenThem) {
  const CrashingPeer peer;
  const absl::Duration backoff = absl::Milliseconds(100);
  Client client(peer.target(), {.max_attempts = 4, .backoff = backoff});
  const absl::Time begin = SteadyNow();
  EXPECT_TRUE(absl::IsUnavailable(client.Reduce(kSum, std::vector<std::int32_t>{1, 2, 3}).status()));
  constexpr double kLeast = 0.8;  // of a pause, whose length varies
  EXPECT_GE(SteadyNow() - begin, (1 + 2 + 4) * kLeast * backoff);
  EXPECT_GE(peer.connections(), 3);
}

TEST(CrashingPeerTest, HealthIsAskedForASecondAndAHalf) {
  const CrashingPeer peer;
  Client client(peer.target());
  const absl::Time begin = SteadyNow();
  EXPECT_TRUE(absl::IsUnavailable(client.IsServing().status()));
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(1500));
}

}  // namespace
}  // namespace warpfold
