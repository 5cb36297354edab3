// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// GPU memory that another process reads first, which takes as long as it likes: clients of the memory socket
// do not wait for each other's memory. memory/handle_prober_test.cc, which has several users, tests that they
// take turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/error.h"
#include "client/shared_memory.h"
#include "server/memory/memory_socket.h"
#include "tests/server/memory/fake_probes.h"
#include "tests/server/memory/fake_seals.h"
#include "tests/server/rpc/memory_socket_fixture.h"

namespace warpfold::server {
namespace {

class MemoryProbesTest : public MemorySocketTest {
 protected:
  MemoryProbesTest() : MemorySocketTest({"/proc/self/exe", kProbeFlag}) {}

  static absl::StatusOr<RegisteredMemory> RegisterGpu(const MemoryConnection& connection, Fate fate,
                                                      std::uint64_t bytes = 4096,
                                                      const CallOptions& options = {},
                                                      const std::string& pci_bus_id = "") {
    std::vector<std::byte> handle(64);
    handle[0] = static_cast<std::byte>(fate);
    return connection.RegisterGpu({.handle = handle, .pci_bus_id = pci_bus_id, .byte_count = bytes},
                                  MemoryAccess::kRead, options);
  }
  MemoryConnection Connect() const {
    auto connection = MemoryConnection::Open(path_);
    EXPECT_TRUE(connection.ok()) << connection.status();
    return *std::move(connection);
  }
  // Has a client's handle hang, and leaves it.
  void Hang() const {
    const MemoryConnection other = Connect();
    const absl::Status status =
        RegisterGpu(other, Fate::kHangs, 4096, {.timeout = absl::Milliseconds(100)}).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
};

TEST_F(MemoryProbesTest, AHandleThatHangsKeepsNobodyElseWaiting) {
  const auto known = RegisterGpu(*connection_, Fate::kGood);
  ASSERT_TRUE(known.ok()) << known.status();
  const absl::Time start = absl::Now();
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    const absl::Status status = RegisterGpu(*connection_, Fate::kHangs).status();
    is_over = true;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("does not end"));
    EXPECT_GE(absl::Now() - start, kProbing);
  });
  absl::SleepFor(absl::Milliseconds(50));  // so that it is asked first
  for (int i = 0; i < 10; ++i) {
    const MemoryConnection other = Connect();
    const auto memory = other.Allocate(4096);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_TRUE(Reduce({At(memory->token(), 0, 10)}).ok());
    EXPECT_TRUE(RegisterGpu(other, Fate::kGood).ok()) << "that handle was probed before";
  }
  EXPECT_FALSE(is_over) << "the others waited for it";
  const MemoryConnection next = Connect();
  EXPECT_TRUE(RegisterGpu(next, Fate::kSlow).ok()) << "and the next handle only for this one";
  waits.join();
  EXPECT_TRUE(Reduce({At(known->token(), 0, 10)}).ok()) << "what its client had registered before is gone";
}

TEST_F(MemoryProbesTest, MemoryOfAnotherGpuIsRefusedWithoutAProbe) {
  const std::string bus(FakeBackend::kBusOfAnother);
  const absl::Status status = RegisterGpu(*connection_, Fate::kHangs, 4096, {}, bus).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("not one of the fake"));
}

TEST_F(MemoryProbesTest, WhoLeavesDuringAProbeLosesAllAtOnce) {
  std::optional<MemoryConnection> other = Connect();
  auto registered = RegisterGpu(*other, Fate::kGood);
  ASSERT_TRUE(registered.ok()) << registered.status();
  const std::string token = registered->token();
  const absl::Status status =
      RegisterGpu(*other, Fate::kHangs, 4096, {.timeout = absl::Milliseconds(100)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  const absl::Time start = absl::Now();
  { const auto gone = *std::move(registered); }
  other.reset();
  Await([&] { return socket_->registrar().registrations() == 0; });
  EXPECT_LT(absl::Now() - start, kProbing / 2);
  EXPECT_EQ(Reason(Reduce({At(token, 0, 10)})), "UNKNOWN_MEMORY");
  ExpectUnharmed();
}

TEST_F(MemoryProbesTest, WhatCouldBeReadAfterItsClientHasLeftIsNotRegistered) {
  {
    const MemoryConnection other = Connect();
    const absl::Status status =
        RegisterGpu(other, Fate::kSlow, 4096, {.timeout = absl::Milliseconds(50)}).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
  // This one is read after that one.
  EXPECT_TRUE(RegisterGpu(*connection_, Fate::kGood).ok());
  Await([&] { return socket_->registrar().registrations() == 0; });
  EXPECT_EQ(socket_->registrar().registered_bytes(), 0u);
}

// A client that has nothing registered yet is not idle either (kIdle is less than this takes).
TEST_F(MemoryProbesTest, LimitsAreCheckedBeforeAProbeAndAfterIt) {
  constexpr std::uint64_t kMoreThanHalf = kMaxRegisteredBytes / 2 + 1;
  const absl::Time start = absl::Now();
  const absl::Status before = RegisterGpu(*connection_, Fate::kHangs, kMaxRegisteredBytes + 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(before)) << before;
  EXPECT_LT(absl::Now() - start, kProbing / 2);
  std::atomic<int> registered = 0;
  std::atomic<int> refused = 0;
  std::atomic<bool> goes_on = true;
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      const MemoryConnection connection = Connect();
      const auto memory = RegisterGpu(connection, Fate::kSlow, kMoreThanHalf);
      ++(memory.ok() ? registered : refused);
      if (memory.ok()) return Await([&] { return !goes_on; });
      EXPECT_TRUE(absl::IsResourceExhausted(memory.status())) << memory.status();
    });
  }
  Await([&] { return registered + refused == 2; });
  EXPECT_EQ(registered, 1);
  goes_on = false;
  for (std::thread& client : clients) client.join();
}

TEST_F(MemoryProbesTest, TheEndWaitsForNoProbe) {
  Hang();
  std::thread waits([&] { EXPECT_FALSE(RegisterGpu(*connection_, Fate::kSlow).ok()); });
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  socket_.reset();
  EXPECT_LT(absl::Now() - start, kProbing / 3);
  waits.join();
}

TEST_F(MemoryProbesTest, ManyProbeAtOnce) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&, i] {
      const MemoryConnection connection = Connect();
      for (int j = 0; j < 20; ++j) {
        const Fate fate = (i + j) % 8 == 0 ? Fate::kCrashes : Fate::kGood;
        const std::uint64_t bytes = static_cast<std::uint64_t>(20 * i + j + 1);
        const absl::Status status =
            RegisterGpu(connection, fate, bytes, {.timeout = absl::Seconds(30)}).status();
        EXPECT_EQ(status.code(),
                  fate == Fate::kGood ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument)
            << status;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  Await([&] { return socket_->registrar().registrations() == 0; });
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): this is its main
  return Probes(argc, argv) ? ServeProbes(ReadFake) : SealOrTest(argc, argv);
}
