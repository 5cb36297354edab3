// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A server at the other end of the memory socket that hangs when a test wants it to.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/shared_memory.h"
#include "tests/temporary_folder.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold {

// A server with one client at a time that registers whatever it is asked to, but not while it hangs.
class Peer {
 public:
  explicit Peer(const std::string& path)
      : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, path.size());
    unlink(path.c_str());
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 0), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~Peer() {
    ending_ = true;
    thread_.join();
    close(listener_);
    if (client_ >= 0) close(client_);
  }

  void SetHanging(bool hanging) { hanging_ = hanging; }
  // Whether it responds with something that is not a message.
  void SetGarbling(bool garbling) { garbling_ = garbling; }
  // How many connections it closes from now on: first the one that it has, then new ones at once.
  void SetClosing(int count) { closing_ = count; }

  // The tokens that are registered and were not given back.
  std::vector<std::string> tokens() {
    const absl::MutexLock lock(&mutex_);
    return tokens_;
  }

  // How many registrations were requested.
  int registered() {
    const absl::MutexLock lock(&mutex_);
    return registered_;
  }

 private:
  void Run() {
    for (; !ending_; absl::SleepFor(absl::Milliseconds(1))) {
      if (hanging_) continue;
      if (client_ < 0) client_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (client_ < 0) continue;
      if (closing_ > 0) {
        HangUp();
        --closing_;
      } else {
        Serve();
      }
    }
  }

  void Serve() {
    std::array<char, 4096> bytes;
    const ssize_t size = recv(client_, bytes.data(), bytes.size(), 0);
    if (size == 0) HangUp();
    if (size <= 0) return;
    v1::MemoryRequest request;
    EXPECT_TRUE(request.ParseFromArray(bytes.data(), static_cast<int>(size)));
    v1::MemoryResponse response;
    response.set_token(Act(request));
    const std::string answer = garbling_ ? "\xff\xff" : response.SerializeAsString();
    // The client may have hung up meanwhile.
    send(client_, answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  void HangUp() {
    close(std::exchange(client_, -1));
    const absl::MutexLock lock(&mutex_);
    tokens_.clear();
  }

  std::string Act(const v1::MemoryRequest& request) {
    const absl::MutexLock lock(&mutex_);
    if (request.has_unregister()) {
      EXPECT_EQ(std::erase(tokens_, request.unregister().token()), 1u);
      return request.unregister().token();
    }
    tokens_.push_back("token " + std::to_string(++registered_));
    return tokens_.back();
  }

  const int listener_;
  int client_ = -1;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> hanging_ = false;
  std::atomic<bool> garbling_ = false;
  std::atomic<int> closing_ = 0;
  absl::Mutex mutex_;
  int registered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> tokens_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

class MemoryConnectionTest : public testing::Test {
 protected:
  static constexpr absl::Duration kShort = absl::Milliseconds(100);
  // Far more than any of this takes, and far less than the two minutes of a server that hangs.
  static constexpr absl::Duration kLong = absl::Seconds(20);

  // Waits until nothing is registered any more.
  bool IsForgotten() {
    while (!peer_.tokens().empty() && absl::Now() - start_ < kLong) absl::SleepFor(absl::Milliseconds(1));
    return peer_.tokens().empty();
  }

  absl::StatusCode CodeOf(const CallOptions& options) {
    return connection_.Allocate(4096, MemoryAccess::kRead, options).status().code();
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.Path("socket");
  Peer peer_{path_};
  MemoryConnection connection_ = *MemoryConnection::Open(path_);
  const absl::Time start_ = absl::Now();
};

}  // namespace warpfold
