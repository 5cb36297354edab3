// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who owns registered memory, and until when: moves, destructors, forks and restarts of the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "client/shared_memory.h"
#include "tests/client/memory_peer.h"

namespace warpfold {
namespace {

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

TEST_F(MemoryConnectionTest, AForkedProcessDoesNotWaitForItsParentsThreads) {
  const std::string path = path_ + "own";
  Peer peer(path);
  std::optional<MemoryConnection> connection = *MemoryConnection::Open(path);
  peer.SetHanging(true);
  std::atomic<int> asked = 0;
  const auto keep_going = [&] { return ++asked > 0; };
  const auto ask = [&] {
    EXPECT_TRUE(connection->Allocate(4096, MemoryAccess::kRead, {.keep_going = keep_going}).ok());
  };
  std::jthread first(ask);
  while (asked < 3) absl::SleepFor(absl::Milliseconds(1));  // until it awaits the response
  std::jthread second(ask);
  absl::SleepFor(absl::Milliseconds(50));  // until it waits for its turn
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    connection.reset();
    std::_Exit(0);
  }
  peer.SetHanging(false);
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
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
  const auto memory = connection_.Allocate(4096, MemoryAccess::kRead, {.keep_going = keep_going});
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

// Both processes then have the same memfd, which the server seals for the first one.
TEST_F(MemoryConnectionTest, AForkWhileMemoryIsAllocatedLeavesItToItsProcess) {
  pid_t child = -1;
  int questions = 0;
  const auto keep_going = [&] {
    if (++questions == 1) child = fork();
    return true;
  };
  const auto memory = connection_.Allocate(4096, MemoryAccess::kRead, {.keep_going = keep_going});
  if (child == 0) std::_Exit(absl::IsFailedPrecondition(memory.status()) && questions == 1 ? 0 : 1);
  ASSERT_TRUE(memory.ok()) << memory.status();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token()));
}

// Older kernels give a piece of the memory up at each signal.
TEST_F(MemoryConnectionTest, MemoryIsAllocatedWhileSignalsCome) {
  struct sigaction count = {};
  count.sa_handler = [](int) {};
  struct sigaction before = {};
  ASSERT_EQ(sigaction(SIGALRM, &count, &before), 0);
  const itimerval each_millisecond = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &each_millisecond, nullptr), 0);
  const absl::Status status = connection_.Allocate(std::uint64_t{64} << 20).status();
  const itimerval never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_TRUE(status.ok()) << status;
}

// The system would end the process.
TEST_F(MemoryConnectionTest, MoreMemoryThanFilesMayHaveBytesIsRefused) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low = {.rlim_cur = 8192, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const absl::Status above = connection_.Allocate(8193).status();
  const absl::Status at = connection_.Allocate(8192).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(above)) << above;
  EXPECT_TRUE(at.ok()) << at;
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
    other.emplace(*connection_.Allocate(4096, MemoryAccess::kRead, {.keep_going = keep_going}));
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

}  // namespace
}  // namespace warpfold
