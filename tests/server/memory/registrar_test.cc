// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that users may register is divided among them, and given back in parts.
#include "server/memory/registrar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

Memfd Own(FileDescriptor memfd) { return Memfd(std::move(memfd), std::make_shared<const uid_t>(0)); }

// If several users may register, each of them leaves an eighth of either limit to the others.
class RegistrarTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kMost = 8192;
  static constexpr std::uint64_t kAlone = kMost / 8 * 7;  // what one user may have
  static constexpr uid_t kGreedy = 1000;
  static constexpr uid_t kOther = 1001;

  RegistrarTest() {
    EXPECT_EQ(ftruncate(memfd_.get(), kMost), 0);
    EXPECT_EQ(posix_fallocate(memfd_.get(), 0, kMost), 0);
    EXPECT_EQ(fcntl(memfd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
  }
  // A copy, so that the registrar may close it.
  Memfd Copy() const { return Own(FileDescriptor(fcntl(memfd_.get(), F_DUPFD_CLOEXEC, 0))); }
  absl::StatusOr<Registrar::Handle> Add(std::uint64_t bytes, uid_t user) {
    absl::StatusOr<Registrar::Handle> begun = registrar_.BeginHost(Copy(), bytes, user);
    if (!begun.ok()) return begun;
    EXPECT_TRUE(registrar_.CanGoOn(**begun));
    EXPECT_FALSE(*registrar_.RegisterNext(*begun));
    return begun;
  }

  const FileDescriptor memfd_{memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  FakeBackend backend_;
  MemoryRegistry registry_;
  Registrar registrar_{backend_, registry_, {.max_bytes = kMost, .has_several_users = true}};
};

TEST_F(RegistrarTest, AUserWithMoreThanHalfOfTheBytesLeavesAnEighth) {
  const absl::StatusOr<Registrar::Handle> first = Add(kMost / 2, kGreedy);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(Add(kMost / 8 * 3, kGreedy).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Add(1, kGreedy).status()));
  EXPECT_TRUE(Add(kMost / 8, kOther).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Add(1, kOther).status()));
  registrar_.Unregister(*first);
  EXPECT_EQ(registrar_.ReleaseNext(), absl::InfiniteDuration());
  // A user with at most half of it may take everything that is free.
  EXPECT_FALSE(Add(kMost / 2, kOther).ok());
  EXPECT_TRUE(Add(kMost / 8 * 3, kOther).ok());
  EXPECT_TRUE(Add(kMost / 8, kGreedy).ok());
}

TEST_F(RegistrarTest, AUserWithMoreThanHalfOfTheRegistrationsLeavesAnEighth) {
  constexpr std::size_t kMaxRegistrations = 4096;
  for (std::size_t i = 0; i < kMaxRegistrations / 8 * 7; ++i) ASSERT_TRUE(Add(1, kGreedy).ok()) << i;
  EXPECT_TRUE(absl::IsResourceExhausted(Add(1, kGreedy).status()));
  for (std::size_t i = 0; i < kMaxRegistrations / 8; ++i) ASSERT_TRUE(Add(1, kOther).ok()) << i;
  EXPECT_TRUE(absl::IsResourceExhausted(Add(1, kOther).status()));
}

// Memory that was given back no longer counts, and makes room part by part.
TEST_F(RegistrarTest, WhoNeedsRoomThatIsBeingGivenBackWaitsForIt) {
  const absl::StatusOr<Registrar::Handle> first = Add(kAlone, kGreedy);
  ASSERT_TRUE(first.ok()) << first.status();
  registrar_.Unregister(*first);
  const auto second = registrar_.BeginHost(Copy(), kAlone - 1, kOther);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(registrar_.CanGoOn(**second));
  EXPECT_FALSE(registrar_.CheckHost(Copy(), kMost / 4, kGreedy).ok()) << "the second has that room already";
  EXPECT_EQ(registrar_.registered_bytes(), kAlone);
  EXPECT_EQ(registrar_.ReleaseNext(), absl::InfiniteDuration());
  EXPECT_EQ(registrar_.registered_bytes(), 0u);
  ASSERT_TRUE(registrar_.CanGoOn(**second));
  EXPECT_FALSE(*registrar_.RegisterNext(*second));
  EXPECT_EQ(registrar_.registered_bytes(), kAlone - 1);
  EXPECT_EQ(registrar_.registrations(), 1u);
  // A registration that never got its room leaves nothing behind.
  registrar_.Unregister(*second);
  const auto third = registrar_.BeginHost(Copy(), kAlone, kOther);
  ASSERT_TRUE(third.ok()) << third.status();
  registrar_.Unregister(*third);
  EXPECT_EQ(registrar_.ReleaseNext(), absl::InfiniteDuration());
  EXPECT_TRUE(registry_.Find((*Add(kAlone, kOther))->token, absl::Now()).ok());
}

// Its owner can keep memory that was given back from being freed, and would otherwise get all of it in turns.
TEST_F(RegistrarTest, WhatAUserHasGivenBackCountsForItsShareUntilItIsGone) {
  const absl::StatusOr<Registrar::Handle> first = Add(kMost / 2, kGreedy);
  ASSERT_TRUE(first.ok()) << first.status();
  registrar_.Unregister(*first);
  const auto most = registrar_.BeginHost(Copy(), kMost / 8 * 3, kGreedy);
  const auto more = registrar_.BeginHost(Copy(), 1, kGreedy);
  ASSERT_TRUE(most.ok() && more.ok());
  ASSERT_TRUE(registrar_.CanGoOn(**most));
  EXPECT_FALSE(*registrar_.RegisterNext(*most));
  EXPECT_FALSE(registrar_.CanGoOn(**more)) << "the last eighth is for others";
  EXPECT_TRUE(Add(kMost / 8, kOther).ok()) << "who do not wait for that";
  EXPECT_EQ(registrar_.ReleaseNext(), absl::InfiniteDuration());
  EXPECT_TRUE(registrar_.CanGoOn(**more));
}

// Otherwise a user who registers little again and again would take the room for which another one waits.
TEST_F(RegistrarTest, WhoCameFirstGetsTheRoomFirst) {
  const absl::StatusOr<Registrar::Handle> first = Add(kMost / 2, kGreedy);
  ASSERT_TRUE(first.ok()) << first.status();
  registrar_.Unregister(*first);
  const auto waits = registrar_.BeginHost(Copy(), kMost / 8 * 5, kOther);
  const auto small = registrar_.BeginHost(Copy(), 1, kGreedy);
  ASSERT_TRUE(waits.ok() && small.ok());
  EXPECT_FALSE(registrar_.CanGoOn(**waits));
  EXPECT_FALSE(registrar_.CanGoOn(**small)) << "though there is room for it";
  registrar_.Unregister(*waits);
  EXPECT_TRUE(registrar_.CanGoOn(**small));
  const auto again = registrar_.BeginHost(Copy(), kMost / 8 * 5, kOther);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(*registrar_.RegisterNext(*small));
  EXPECT_FALSE(registrar_.CanGoOn(**again));
  EXPECT_EQ(registrar_.ReleaseNext(), absl::InfiniteDuration());
  EXPECT_TRUE(registrar_.CanGoOn(**again));
}

TEST_F(RegistrarTest, WhatIsReadStaysAndCounts) {
  const absl::StatusOr<Registrar::Handle> first = Add(kAlone, kOther);
  ASSERT_TRUE(first.ok()) << first.status();
  auto read = *registry_.Find((*first)->token, absl::Now());
  registrar_.Unregister(*first);
  EXPECT_GT(registrar_.ReleaseNext(), absl::ZeroDuration());
  EXPECT_LT(registrar_.ReleaseNext(), absl::Seconds(1));
  EXPECT_FALSE(registrar_.BeginHost(Copy(), kMost / 4, kOther).ok());
  read.reset();
  EXPECT_EQ(registrar_.ReleaseNext(), absl::InfiniteDuration());
  EXPECT_TRUE(Add(kAlone, kOther).ok());
}

// Each call gives back a part of what the device has and of what is mapped; the last part goes elsewhere.
TEST(Registrar, MuchIsGivenBackInParts) {
  constexpr std::uint64_t kBytes = 2 * kUnmappedBytes + 4096;
  FileDescriptor memfd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(posix_fallocate(memfd.get(), 0, kBytes), 0);
  FakeBackend backend;
  MemoryRegistry registry;
  Registrar registrar(backend, registry, {.max_bytes = kBytes});
  const auto memory = registrar.BeginHost(Own(std::move(memfd)), kBytes, 0);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_FALSE(*registrar.RegisterNext(*memory));
  registrar.Unregister(*memory);
  backend.release_goes_on = true;
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(registrar.ReleaseNext(), absl::ZeroDuration());
    EXPECT_EQ(backend.released_parts, i);
  }
  backend.release_goes_on = false;
  EXPECT_EQ(registrar.ReleaseNext(), absl::ZeroDuration()) << "a part is still mapped, and one more";
  EXPECT_EQ(registrar.registered_bytes(), kBytes);
  while (registrar.ReleaseNext() != absl::InfiniteDuration()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(registrar.registered_bytes(), 0u);
  EXPECT_EQ(registrar.registrations(), 0u);
}

}  // namespace
}  // namespace warpfold::server
