// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Things that some clients of the memory socket do, and for which others do not wait: sealing a memfd takes
// as long as its owner likes, registering much memory or giving it back takes seconds, and clients leave in
// the middle.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/error.h"
#include "client/shared_memory.h"
#include "server/memory/memfd.h"
#include "server/memory/memory_socket.h"
#include "server/net/foreign_descriptors.h"
#include "tests/server/memory/fake_seals.h"
#include "tests/server/rpc/memory_socket_fixture.h"

namespace warpfold::server {
namespace {

using MemoryTurnsTest = MemorySocketTest;

// A process that writes to a memfd holds its lock, and may hold it for ever.
TEST_F(MemoryTurnsTest, AMemfdThatTakesNoSealsKeepsNobodyElseWaiting) {
  const auto before = connection_->Allocate(4096);
  ASSERT_TRUE(before.ok()) << before.status();
  const int fd = Memfd(kHangs, true, F_SEAL_SHRINK);
  const absl::Time start = absl::Now();
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    const absl::Status status = connection_->Register(fd, 1).status();
    is_over = true;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("takes no seals"));
    EXPECT_GE(absl::Now() - start, kSealing);
  });
  for (int i = 0; i < 10; ++i) {
    auto other = MemoryConnection::Open(path_);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_TRUE(other->Allocate(4096).ok());
  }
  EXPECT_FALSE(is_over) << "the others waited for it";
  waits.join();
  EXPECT_TRUE(Reduce({At(before->token(), 0, 10)}).ok()) << "what its client had registered before is gone";
  EXPECT_TRUE(connection_->Allocate(4096).ok());
  close(fd);
}

// Much memory takes seconds to register. Clients that register less, or do anything else, do not wait for it.
TEST_F(MemoryTurnsTest, WhileMuchIsRegisteredOthersAreServed) {
  backend_.registration_goes_on = true;
  std::atomic<bool> is_over = false;
  std::thread registers([&] {
    const auto much = connection_->Allocate(FakeBackend::kManyBytes + 1);
    is_over = true;
    EXPECT_TRUE(much.ok()) << much.status();
  });
  const absl::Cleanup ends = [&] {
    backend_.registration_goes_on = false;
    registers.join();
  };
  Await([&] { return socket_->registrar().registered_bytes() > FakeBackend::kManyBytes; });
  for (int i = 0; i < 3; ++i) {
    auto other = MemoryConnection::Open(path_);
    ASSERT_TRUE(other.ok()) << other.status();
    const auto memory = other->Allocate(4096);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_TRUE(Reduce({At(memory->token(), 0, 10)}).ok());
  }
  EXPECT_FALSE(is_over);
}

TEST_F(MemoryTurnsTest, WhoLeavesWhileMuchIsRegisteredLosesIt) {
  backend_.registration_goes_on = true;
  std::atomic<bool> goes_on = true;
  std::thread registers([&] {
    auto other = MemoryConnection::Open(path_);
    EXPECT_TRUE(other.ok()) << other.status();
    const CallOptions options = {.keep_going = [&] { return goes_on.load(); }};
    const absl::Status status =
        other->Allocate(FakeBackend::kManyBytes + 1, MemoryAccess::kRead, options).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
  Await([&] { return socket_->registrar().registered_bytes() > 0; });
  goes_on = false;
  registers.join();
  Await([&] { return socket_->registrar().registered_bytes() == 0; });
  ExpectUnharmed();
}

// As if the device is lost meanwhile.
TEST_F(MemoryTurnsTest, WhatFailsAfterAPartIsToldAndCountsNoMore) {
  backend_.registration_goes_on = true;
  std::thread registers([&] {
    const auto much = connection_->Allocate(FakeBackend::kManyBytes + 1);
    EXPECT_TRUE(absl::IsUnavailable(much.status())) << much.status();
  });
  Await([&] { return socket_->registrar().registered_bytes() > 0; });
  backend_.registration_fails = true;
  registers.join();
  Await([&] { return socket_->registrar().registered_bytes() == 0; });
}

TEST_F(MemoryTurnsTest, TheEndWaitsForNoMoreThanAPart) {
  backend_.registration_goes_on = true;
  std::thread registers([&] { EXPECT_FALSE(connection_->Allocate(FakeBackend::kManyBytes + 1).ok()); });
  Await([&] { return socket_->registrar().registered_bytes() > 0; });
  socket_.reset();
  registers.join();
}

// So is the memory that a client leaves behind, even if the client has ended.
TEST_F(MemoryTurnsTest, WhileMuchIsGivenBackOthersAreServed) {
  backend_.release_goes_on = true;
  const absl::Cleanup ends = [&] { backend_.release_goes_on = false; };
  {
    const auto leaves = MemoryConnection::Open(path_);
    ASSERT_TRUE(leaves.ok() && leaves->Allocate(FakeBackend::kManyBytes + 1).ok());
  }
  for (int i = 0; i < 3; ++i) {
    const int before = backend_.released_parts;
    auto other = MemoryConnection::Open(path_);
    ASSERT_TRUE(other.ok()) << other.status();
    const auto memory = other->Allocate(4096);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_TRUE(Reduce({At(memory->token(), 0, 10)}).ok());
    Await([&] { return backend_.released_parts > before; });
  }
  EXPECT_GT(socket_->registrar().registered_bytes(), FakeBackend::kManyBytes);
  backend_.release_goes_on = false;
  Await([&] { return socket_->registrar().registered_bytes() == 0; });
}

// It is not rejected: memory that was given back before makes room.
TEST_F(MemoryTurnsTest, WhoNeedsRoomThatIsBeingGivenBackWaitsForIt) {
  backend_.release_goes_on = true;
  EXPECT_TRUE(connection_->Allocate(FakeBackend::kManyBytes + 1).ok());
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    auto other = MemoryConnection::Open(path_);
    const auto much = other->Allocate(kMaxRegisteredBytes - 8192);
    is_over = true;
    EXPECT_TRUE(much.ok()) << much.status();
  });
  absl::SleepFor(2 * kIdle);
  EXPECT_TRUE(absl::IsResourceExhausted(connection_->Allocate(kMaxRegisteredBytes / 4).status()))
      << "it was given the room that the other waits for";
  EXPECT_FALSE(is_over);
  backend_.release_goes_on = false;
  EXPECT_TRUE(connection_->Allocate(4096).ok()) << "behind the other";
  waits.join();
  Await([&] { return socket_->registrar().registered_bytes() == 0; });
}

TEST_F(MemoryTurnsTest, WhoWaitsForRoomTooLongIsToldSo) {
  backend_.release_goes_on = true;
  EXPECT_TRUE(connection_->Allocate(FakeBackend::kManyBytes + 1).ok());
  auto other = MemoryConnection::Open(path_);
  const absl::Time start = absl::Now();
  const absl::Status status = other->Allocate(kMaxRegisteredBytes - 8192).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  EXPECT_TRUE(info.has_value() && info->reason == "TOO_MUCH_MEMORY") << status;
  EXPECT_GE(absl::Now() - start, kRoom);
  EXPECT_TRUE(other->Allocate(4096).ok()) << "it takes no room";
  backend_.release_goes_on = false;
}

// Closing it may take long. If more were taken meanwhile, they might be all descriptors that the server has.
TEST_F(MemoryTurnsTest, AfterARefusedMemfdItsClientIsServedOnceItIsClosed) {
  absl::Notification closes;
  for (int closer = 0; closer < kClosersOfOne; ++closer) {
    const auto hang = [&closes](const int*) { closes.WaitForNotification(); };
    DestroyElsewhere(std::shared_ptr<const int>(nullptr, hang), geteuid());
  }
  auto other = MemoryConnection::Open(path_);
  ASSERT_TRUE(other.ok()) << other.status();
  const int fd = Memfd(kUnmappedBytes + 4096, false, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(other->Register(fd, 4096).status())) << "it is not sealed";
  close(fd);
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    EXPECT_TRUE(other->Allocate(4096).ok());
    is_over = true;
  });
  absl::SleepFor(2 * kIdle);
  EXPECT_FALSE(is_over);
  EXPECT_TRUE(MemoryConnection::Open(path_)->Allocate(4096).ok()) << "others wait with it";
  closes.Notify();
  waits.join();
}

TEST_F(MemoryTurnsTest, WhoLeavesWhileItWaitsForRoomTakesNone) {
  backend_.release_goes_on = true;
  EXPECT_TRUE(connection_->Allocate(FakeBackend::kManyBytes + 1).ok());
  {
    const auto leaves = MemoryConnection::Open(path_);
    const absl::Status status =
        leaves->Allocate(kMaxRegisteredBytes - 8192, MemoryAccess::kRead, {.timeout = 2 * kIdle}).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
  absl::SleepFor(kIdle);  // until the server has seen it leave
  std::thread waits([&] { EXPECT_TRUE(connection_->Allocate(kMaxRegisteredBytes).ok()); });
  absl::SleepFor(kIdle);
  backend_.release_goes_on = false;
  waits.join();
}

TEST_F(MemoryTurnsTest, TheEndDoesNotWaitForTurnsToGiveBack) {
  backend_.release_goes_on = true;
  EXPECT_TRUE(connection_->Allocate(FakeBackend::kManyBytes + 1).ok());
  socket_.reset();
}

TEST_F(MemoryTurnsTest, WhoLeavesWhileAMemfdIsSealedLosesAllAtOnce) {
  auto other = MemoryConnection::Open(path_);
  ASSERT_TRUE(other.ok()) << other.status();
  auto registered = other->Allocate(4096);
  ASSERT_TRUE(registered.ok()) << registered.status();
  const std::string token = registered->token();
  const int fd = Memfd(kHangs, true, F_SEAL_SHRINK);
  const absl::Status status =
      other->Register(fd, 1, MemoryAccess::kRead, {.timeout = absl::Milliseconds(100)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  const absl::Time start = absl::Now();
  { const auto gone = *std::move(registered); }
  { const auto gone = *std::move(other); }
  Await([&] { return Reason(Reduce({At(token, 0, 10)})) == "UNKNOWN_MEMORY"; });
  EXPECT_LT(absl::Now() - start, kSealing / 2);
  close(fd);
}

TEST_F(MemoryTurnsTest, WhatSealsMayEndAndIsStartedAgain) {
  const int fd = Memfd(kCrashes, true, F_SEAL_SHRINK);
  const auto before = connection_->Allocate(4096);
  ASSERT_TRUE(before.ok()) << before.status();
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = connection_->Register(fd, 1).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(GetErrorInfo(status)->reason, "NO_PROBER");
    EXPECT_TRUE(connection_->Allocate(4096).ok());
  }
  EXPECT_TRUE(Reduce({At(before->token(), 0, 10)}).ok());
  close(fd);
}

// There is nothing to poll then, and the client must hear of it nevertheless.
TEST_F(MemoryTurnsTest, WithoutAProcessThatSealsTheClientIsTold) {
  const std::string path = folder_.Path("bare");
  const auto bare = MemorySocket::Open({.path = path,
                                        .users = {},
                                        .max_registered_bytes = kMaxRegisteredBytes,
                                        .sealer_command = {"/nonexistent"}},
                                       backend_, service_.memories);
  ASSERT_TRUE(bare.ok()) << bare.status();
  const auto connection = MemoryConnection::Open(path);
  ASSERT_TRUE(connection.ok()) << connection.status();
  const int fd = Memfd(4096, true, F_SEAL_SHRINK);
  const absl::Status status =
      connection->Register(fd, 1, MemoryAccess::kRead, {.timeout = absl::Seconds(10)}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).value_or(ErrorInfo()).reason, "NO_PROBER");
  close(fd);
}

// Many at once: no response is lost when one client's request takes another's result.
TEST_F(MemoryTurnsTest, ManyRegisterAtOnce) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      const auto connection = MemoryConnection::Open(path_);
      ASSERT_TRUE(connection.ok()) << connection.status();
      for (int j = 0; j < 100; ++j) {
        const absl::Status status =
            connection->Allocate(4096, MemoryAccess::kRead, {.timeout = absl::Seconds(20)}).status();
        ASSERT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) { return warpfold::server::SealOrTest(argc, argv); }
