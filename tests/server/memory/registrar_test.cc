// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What users have registered is shared out among them.
#include "server/memory/registrar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

// Where several users may register, one of them leaves an eighth to others, of either limit.
class RegistrarTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kMost = 8192;
  static constexpr uid_t kGreedy = 1000;
  static constexpr uid_t kOther = 1001;

  RegistrarTest() {
    EXPECT_EQ(ftruncate(memfd_.get(), kMost), 0);
    EXPECT_EQ(posix_fallocate(memfd_.get(), 0, kMost), 0);
    EXPECT_EQ(fcntl(memfd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
  }
  // A copy, so that the registrar may close it.
  Memfd Copy() const { return Memfd(FileDescriptor(fcntl(memfd_.get(), F_DUPFD_CLOEXEC, 0))); }
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
  // With half of it at most a user may take all that is free.
  EXPECT_FALSE(Add(kMost / 2, kOther).ok());
  EXPECT_TRUE(Add(kMost / 8 * 3, kOther).ok());
  EXPECT_TRUE(Add(kMost / 8, kGreedy).ok());
}

TEST_F(RegistrarTest, AUserWithMoreThanHalfOfTheRegistrationsLeavesAnEighth) {
  constexpr std::size_t kMostRegistrations = 4096;
  for (std::size_t i = 0; i < kMostRegistrations / 8 * 7; ++i) ASSERT_TRUE(Add(1, kGreedy).ok()) << i;
  EXPECT_TRUE(absl::IsResourceExhausted(Add(1, kGreedy).status()));
  for (std::size_t i = 0; i < kMostRegistrations / 8; ++i) ASSERT_TRUE(Add(1, kOther).ok()) << i;
  EXPECT_TRUE(absl::IsResourceExhausted(Add(1, kOther).status()));
}

}  // namespace
}  // namespace warpfold::server
