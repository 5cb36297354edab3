// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The client's side of the memory socket, with a server that hangs: nobody waits for longer than requested,
// and the server learns of what was given up or given back meanwhile once it responds again.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/connections/status.h"
#include "client/shared_memory.h"
#include "tests/temporary_folder.h"
#include "warpfold/v1/memory.pb.h"

namespace warpfold {
namespace {

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
      if (client_ >= 0) Serve();
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
    return connection_.Allocate(4096, options).status().code();
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.Path("socket");
  Peer peer_{path_};
  MemoryConnection connection_ = *MemoryConnection::Open(path_);
  const absl::Time start_ = absl::Now();
};

TEST_F(MemoryConnectionTest, AWaitEndsAsAnyCallsDoes) {
  peer_.SetHanging(true);
  EXPECT_EQ(CodeOf({.timeout = kShort}), absl::StatusCode::kDeadlineExceeded);
  int questions = 0;
  EXPECT_EQ(CodeOf({.keep_going = [&questions] { return ++questions < 3; }}), absl::StatusCode::kCancelled);
  EXPECT_EQ(questions, 3);
  std::stop_source stop;
  std::thread stopper([&stop] {
    absl::SleepFor(kShort);
    stop.request_stop();
  });
  EXPECT_EQ(CodeOf({.stop = stop.get_token()}), absl::StatusCode::kCancelled);
  stopper.join();
  EXPECT_LT(absl::Now() - start_, kLong);
}

// As a signal handler may ask, while its own thread waits.
TEST_F(MemoryConnectionTest, AQuestionFromWithinAnotherOneDoesNotWaitForItself) {
  peer_.SetHanging(true);
  int questions = 0;  // the third one comes while the response is awaited
  const auto keep_going = [&] {
    if (++questions < 3) return true;
    EXPECT_EQ(CodeOf({.timeout = kLong}), absl::StatusCode::kFailedPrecondition);
    return false;
  };
  EXPECT_EQ(CodeOf({.keep_going = keep_going}), absl::StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - start_, kLong);
  peer_.SetHanging(false);
  EXPECT_TRUE(connection_.Allocate(4096).ok());
}

TEST_F(MemoryConnectionTest, TheTimeoutCountsWhatTheMemoryItselfTakes) {
  peer_.SetHanging(true);
  int questions = 0;  // 20 a second
  const auto keep_going = [&questions] {
    if (++questions == 1) absl::SleepFor(absl::Milliseconds(1800));
    return true;
  };
  EXPECT_EQ(CodeOf({.timeout = absl::Seconds(2), .keep_going = keep_going}),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(questions, 20);
}

TEST_F(MemoryConnectionTest, WhatIsRegisteredTooLateIsGivenBack) {
  peer_.SetHanging(true);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(CodeOf({.timeout = kShort}), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(peer_.tokens(), testing::IsEmpty());
  peer_.SetHanging(false);
  // Each response still belongs to its own question.
  const auto memory = connection_.Allocate(4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token()));
}

// There is no other question to come, which would give it back.
TEST_F(MemoryConnectionTest, WhatIsRegisteredTooLateIsGivenBackAlsoIfNobodyAsksAgain) {
  peer_.SetHanging(true);
  EXPECT_EQ(CodeOf({.timeout = kShort}), absl::StatusCode::kDeadlineExceeded);
  peer_.SetHanging(false);
  EXPECT_TRUE(IsForgotten());
  EXPECT_TRUE(connection_.Allocate(4096).ok());
}

TEST_F(MemoryConnectionTest, AServerThatWasSlowHearsOfAllThatIsGivenBackAlsoIfNobodyAsksAgain) {
  std::vector<SharedMemory> memories;
  for (int i = 0; i < 20; ++i) memories.push_back(*connection_.Allocate(4096));
  SharedMemory stays = std::move(memories.back());
  memories.pop_back();
  peer_.SetHanging(true);
  memories.clear();
  peer_.SetHanging(false);
  while (peer_.tokens().size() > 1 && absl::Now() - start_ < kLong) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(stays.token()));
}

TEST_F(MemoryConnectionTest, WhatTheClientFindsAtFaultItRefusesByItself) {
  EXPECT_TRUE(IsRefusedCall(connection_.Allocate(0).status()));
  EXPECT_TRUE(IsRefusedCall(connection_.Register(-1, 1).status()));
  EXPECT_TRUE(IsRefusedCall(connection_.RegisterGpu({}, "", 0, 1).status()));
}

TEST_F(MemoryConnectionTest, AnEndBeforeTheQuestionIsHeard) {
  std::stop_source stop;
  stop.request_stop();
  const std::vector<std::byte> handle(64);
  const auto expect_end = [&](const CallOptions& options, absl::StatusCode code) {
    EXPECT_EQ(MemoryConnection::Open(path_, options).status().code(), code);
    EXPECT_EQ(CodeOf(options), code);
    EXPECT_EQ(connection_.RegisterGpu(handle, "", 0, 1, options).status().code(), code);
  };
  expect_end({.stop = stop.get_token()}, absl::StatusCode::kCancelled);
  expect_end({.keep_going = [] { return false; }}, absl::StatusCode::kCancelled);
  expect_end({.timeout = absl::ZeroDuration()}, absl::StatusCode::kDeadlineExceeded);
  expect_end({.timeout = -absl::InfiniteDuration()}, absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(connection_.Allocate(4096).ok());
  EXPECT_EQ(peer_.registered(), 1);
}

// A caller that is told of a signal is told only once.
TEST_F(MemoryConnectionTest, AQuestionThatWasGivenUpIsNotAskedAgain) {
  peer_.SetHanging(true);
  int questions = 0;
  // The third one comes while the response is awaited.
  const CallOptions once = {.timeout = kLong, .keep_going = [&questions] { return ++questions != 3; }};
  EXPECT_EQ(CodeOf(once), absl::StatusCode::kCancelled);
  EXPECT_EQ(questions, 3);
  EXPECT_LT(absl::Now() - start_, kLong);
  peer_.SetHanging(false);
  EXPECT_TRUE(connection_.Allocate(4096).ok());
  EXPECT_EQ(peer_.registered(), 2);
}

// A server hangs up on a client that sends it something that is not a memfd, and then forgets all memory.
TEST_F(MemoryConnectionTest, WhatTheServerWouldHangUpOnChangesNothing) {
  const auto memory = connection_.Allocate(4096);
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : {-1, 1'000'000, file}) {
    EXPECT_EQ(connection_.Register(descriptor, 4096).status().code(), absl::StatusCode::kInvalidArgument);
  }
  close(file);
  for (const std::size_t size : {0, 63, 65, 1 << 20}) {
    const std::vector<std::byte> handle(size);
    EXPECT_EQ(connection_.RegisterGpu(handle, "", 0, 1).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const absl::Status no_text =
      connection_.RegisterGpu(std::vector<std::byte>(64), "0000:\xff", 0, 1).status();
  EXPECT_EQ(no_text.message(), "pci_bus_id must be printable ASCII characters");
  EXPECT_EQ(connection_.Allocate(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(peer_.registered(), 1);
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token()));
  EXPECT_TRUE(connection_.Allocate(4096).ok());
}

// Its tokens start anew, so that a token of the old memory would end new memory here.
TEST_F(MemoryConnectionTest, AServerThatIsStartedAgainIsConnectedToAgain) {
  const std::string path = path_ + "again";
  std::optional<Peer> peer(path);
  const auto connection = *MemoryConnection::Open(path);
  std::vector<SharedMemory> old;
  for (int i = 0; i < 3; ++i) old.push_back(*connection.Allocate(4096));
  peer.reset();
  old.pop_back();
  EXPECT_EQ(connection.Allocate(4096).status().code(), absl::StatusCode::kUnavailable);
  peer.emplace(path);
  const auto memory = connection.Allocate(4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->token(), old.front().token());
  old.clear();
  const auto other = connection.Allocate(4096);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(peer->tokens(), testing::ElementsAre(memory->token(), other->token()));
}

TEST_F(MemoryConnectionTest, AProcessThatWasForkedLeavesItsParentsMemoryAlone) {
  std::optional<SharedMemory> memory = *connection_.Allocate(4096);
  const pid_t child = fork();
  if (child == 0) {
    memory.reset();
    const bool is_refused = absl::IsFailedPrecondition(connection_.Allocate(4096).status());
    std::_Exit(is_refused ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto other = connection_.Allocate(4096);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token(), other->token()));
}

TEST_F(MemoryConnectionTest, AForkInTheMiddleOfAQuestionLeavesItToItsProcess) {
  peer_.SetHanging(true);
  pid_t child = -1;
  int questions = 0;
  const auto keep_going = [&] {
    // The third one comes while the response is awaited.
    if (++questions == 3) child = fork();
    if (child > 0) peer_.SetHanging(false);
    return true;
  };
  const auto memory = connection_.Allocate(4096, {.keep_going = keep_going});
  if (child == 0) {
    const absl::Status status = memory.status();
    const bool is_told = absl::IsFailedPrecondition(status) && absl::StrContains(status.message(), "forked");
    std::_Exit(is_told ? 0 : 1);
  }
  ASSERT_TRUE(memory.ok()) << memory.status();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token()));
}

TEST_F(MemoryConnectionTest, ADestructorDoesNotWaitForAServerThatHangs) {
  std::vector<SharedMemory> memories;
  for (int i = 0; i < 300; ++i) memories.push_back(*connection_.Allocate(4096));
  peer_.SetHanging(true);
  const absl::Time start = absl::Now();
  memories.clear();
  EXPECT_LT(absl::Now() - start, kLong / 4) << "nor for each of them";
  EXPECT_THAT(peer_.tokens(), testing::SizeIs(300));
  peer_.SetHanging(false);
  const auto memory = connection_.Allocate(4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token()));
}

TEST_F(MemoryConnectionTest, MemoryThatIsGivenBackWhileAnotherThreadAsksIsToldByThatOne) {
  std::optional<SharedMemory> memory = *connection_.Allocate(4096);
  peer_.SetHanging(true);
  std::atomic<bool> asking = false;
  std::optional<SharedMemory> other;
  std::thread thread([&] {
    const auto keep_going = [&asking] { return asking = true; };
    other.emplace(*connection_.Allocate(4096, {.keep_going = keep_going}));
  });
  while (!asking) absl::SleepFor(absl::Milliseconds(1));
  memory.reset();
  // A third one waits for its turn no longer than it wants to.
  EXPECT_EQ(CodeOf({.timeout = kShort}), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(absl::Now() - start_, kLong);
  peer_.SetHanging(false);
  thread.join();
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(other->token()));
}

// Hanging up is the quick way to give back what comes too late, but not if the server has any memory.
TEST_F(MemoryConnectionTest, AQuestionThatIsGivenUpCostsNoMemoryThatIsUsed) {
  const auto memory = connection_.Allocate(4096);
  peer_.SetHanging(true);
  EXPECT_EQ(CodeOf({.timeout = kShort}), absl::StatusCode::kDeadlineExceeded);
  peer_.SetHanging(false);
  const auto other = connection_.Allocate(4096);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token(), other->token()));
}

// It may respond to any question with anything, so no token from it is trusted any more.
TEST_F(MemoryConnectionTest, AServerWhoseAnswerIsNotReadableIsAskedNoMore) {
  const auto memory = connection_.Allocate(4096);
  peer_.SetGarbling(true);
  EXPECT_EQ(CodeOf({}), absl::StatusCode::kInternal);
  peer_.SetGarbling(false);
  const int registered = peer_.registered();
  EXPECT_EQ(CodeOf({}), absl::StatusCode::kUnavailable);
  EXPECT_EQ(peer_.registered(), registered);
}

TEST_F(MemoryConnectionTest, MemoryThatIsMovedStaysAndWhatItReplacesIsGivenBack) {
  SharedMemory kept = *connection_.Allocate(4096);
  SharedMemory moved = *connection_.Allocate(8192);
  const std::string token = moved.token();
  moved.data().back() = std::byte{42};
  {
    SharedMemory old = std::move(kept);
    kept = std::move(moved);
    EXPECT_EQ(old.data().size(), 4096u);
  }
  EXPECT_EQ(kept.token(), token);
  ASSERT_EQ(kept.data().size(), 8192u);
  EXPECT_EQ(kept.data().back(), std::byte{42}) << "it is still mapped";
  while (peer_.tokens().size() > 1 && absl::Now() - start_ < kLong) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(token));
}

TEST_F(MemoryConnectionTest, ConnectingEndsInTime) {
  peer_.SetHanging(true);
  // These fill the queue of connections that nobody has accepted.
  std::vector<MemoryConnection> waiting;
  absl::Status status;
  while (status.ok()) {
    auto connection = MemoryConnection::Open(path_, {.timeout = kShort});
    status = connection.status();
    if (status.ok()) waiting.push_back(*std::move(connection));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(absl::Now() - start_, kLong);
}

}  // namespace
}  // namespace warpfold
