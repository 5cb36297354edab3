// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The client's side of the memory socket, with a server that hangs: nobody waits for longer than requested,
// and the server learns of what was given up or given back meanwhile once it responds again.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/connections/status.h"
#include "client/shared_memory.h"
#include "tests/client/memory_peer.h"

namespace warpfold {
namespace {

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

// An empty path would be a name that any process can take.
TEST_F(MemoryConnectionTest, APathThatIsNoneOfASocketIsRefused) {
  for (const std::string& path : {std::string(), std::string(108, 'x'), path_ + '\0', path_ + '\0' + "x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MemoryConnection::Open(path).status())) << path.size();
  }
}

TEST_F(MemoryConnectionTest, WhatTheClientFindsAtFaultItRefusesByItself) {
  EXPECT_TRUE(IsRefusedCall(connection_.Allocate(0).status()));
  EXPECT_TRUE(IsRefusedCall(connection_.Register(-1, 1).status()));
  EXPECT_TRUE(IsRefusedCall(connection_.RegisterGpu({.byte_count = 1}).status()));
}

TEST_F(MemoryConnectionTest, AnEndBeforeTheQuestionIsHeard) {
  std::stop_source stop;
  stop.request_stop();
  const std::vector<std::byte> handle(64);
  const auto expect_end = [&](const CallOptions& options, absl::StatusCode code) {
    EXPECT_EQ(MemoryConnection::Open(path_, options).status().code(), code);
    EXPECT_EQ(CodeOf(options), code);
    EXPECT_EQ(connection_.RegisterGpu({.handle = handle, .byte_count = 1}, MemoryAccess::kRead, options)
                  .status()
                  .code(),
              code);
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
    EXPECT_EQ(connection_.RegisterGpu({.handle = handle, .byte_count = 1}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const std::vector<std::byte> handle(64);
  const std::string long_text(65, '0');
  EXPECT_TRUE(absl::IsInvalidArgument(
      connection_.RegisterGpu({.handle = handle, .pci_bus_id = long_text, .byte_count = 1}).status()));
  const GpuRange no_text = {.handle = handle, .pci_bus_id = "0000:\xff", .byte_count = 1};
  EXPECT_EQ(connection_.RegisterGpu(no_text).status().message(),
            "pci_bus_id must be at most 64 printable ASCII characters");
  EXPECT_EQ(connection_.Allocate(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(peer_.registered(), 1);
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token()));
  EXPECT_TRUE(connection_.Allocate(4096).ok());
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

// A server does so as long as it counts connections of the same user that have ended.
TEST_F(MemoryConnectionTest, AConnectionThatIsClosedAtOnceIsMadeAgain) {
  ASSERT_TRUE(connection_.Allocate(4096).ok());
  peer_.SetClosing(5);
  const auto memory = connection_.Allocate(4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_THAT(peer_.tokens(), testing::ElementsAre(memory->token()));
}

TEST_F(MemoryConnectionTest, AServerThatClosesAllConnectionsIsGivenUpSoon) {
  ASSERT_TRUE(connection_.Allocate(4096).ok());
  peer_.SetClosing(1'000'000);
  EXPECT_EQ(CodeOf({.timeout = absl::Milliseconds(30)}), absl::StatusCode::kDeadlineExceeded);
  int questions = 0;
  EXPECT_EQ(CodeOf({.keep_going = [&questions] { return ++questions < 4; }}), absl::StatusCode::kCancelled);
  const absl::Status status = connection_.Allocate(4096).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), testing::HasSubstr("128 connections of one user"));
  EXPECT_LT(absl::Now() - start_, kLong);
  peer_.SetClosing(0);
  EXPECT_TRUE(connection_.Allocate(4096).ok());
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
