// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each user's memfds are sealed by separate processes, on a clock that the test moves.
#include "server/memory/memfd_sealer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "tests/server/memory/fake_seals.h"

namespace warpfold::server {
namespace {

// Memfds of two users, and the object that seals them.
class MemfdSealerTest : public testing::Test {
 protected:
  static constexpr uid_t kUser = 1000;
  static constexpr uid_t kOther = 1001;

  std::shared_ptr<Sealing> Start(off_t bytes, uid_t user) {
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, bytes), 0);
    return sealer_.Start(Memfd(FileDescriptor(fd), std::make_shared<const uid_t>(user)), user, now_);
  }
  void AwaitResult(const Sealing& sealing) {
    while (!sealing.result.has_value()) {
      std::vector<pollfd> watched;
      sealer_.Watch(&watched);
      poll(watched.data(), watched.size(), 10);
      sealer_.Advance(now_);
    }
  }
  std::size_t processes() const {
    std::vector<pollfd> watched;
    sealer_.Watch(&watched);
    return watched.size();
  }

  absl::Time now_ = absl::UnixEpoch();
  MemfdSealer sealer_{{"/proc/self/exe", kSealFlag}, absl::Seconds(10)};
};

TEST_F(MemfdSealerTest, AUserHoldsUpItsOwnProcessesAlone) {
  std::vector<std::shared_ptr<Sealing>> hanging;
  for (int i = 0; i < 20; ++i) hanging.push_back(Start(kHangs, kUser));
  EXPECT_EQ(processes(), MemfdSealer::kProcessesOfOneUser);
  const auto others = Start(4096, kOther);
  AwaitResult(*others);
  EXPECT_TRUE(others->result->ok()) << *others->result;
  EXPECT_EQ(sealer_.deadline(now_), now_ + absl::Seconds(10));
  now_ += absl::Seconds(10);
  sealer_.Advance(now_);
  for (const auto& sealing : hanging) {
    ASSERT_TRUE(sealing->result.has_value());
    EXPECT_TRUE(absl::IsInvalidArgument(*sealing->result)) << *sealing->result;
  }
  // These processes can be killed. The next is sealed by a new one once they are gone.
  const auto next = Start(4096, kUser);
  AwaitResult(*next);
  EXPECT_TRUE(next->result->ok()) << *next->result;
}

TEST_F(MemfdSealerTest, ProcessesThatHaveNothingToDoEnd) {
  std::vector<std::shared_ptr<Sealing>> sealings;
  for (int i = 0; i < 8; ++i) sealings.push_back(Start(4096, kUser));
  EXPECT_EQ(processes(), MemfdSealer::kProcessesOfOneUser);
  for (const auto& sealing : sealings) AwaitResult(*sealing);
  EXPECT_EQ(sealer_.deadline(now_), now_ + MemfdSealer::kLongestIdle);
  now_ += MemfdSealer::kLongestIdle;
  while (processes() > 0) sealer_.Advance(now_);
  EXPECT_EQ(sealer_.deadline(now_), absl::InfiniteFuture());
  const auto next = Start(4096, kUser);
  AwaitResult(*next);
  EXPECT_TRUE(next->result->ok()) << *next->result;
}

TEST_F(MemfdSealerTest, ProcessesInheritNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // without O_CLOEXEC
  AwaitResult(*Start(4096, kUser));
  EXPECT_EQ(processes(), 1u);
  close(ends[1]);
  pollfd reader = {.fd = ends[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&reader, 1, 0), 1) << "the process has the other end, too";
  close(ends[0]);
}

TEST_F(MemfdSealerTest, WhatNobodyWantsAnyMoreIsNotSealed) {
  std::vector<std::shared_ptr<Sealing>> hanging;
  for (std::size_t i = 0; i < MemfdSealer::kProcessesOfOneUser; ++i) hanging.push_back(Start(kHangs, kUser));
  Start(4096, kUser).reset();
  sealer_.Advance(now_);
  now_ += absl::Seconds(9);
  const auto waiting = Start(4096, kUser);
  hanging.clear();
  now_ += absl::Seconds(1);
  AwaitResult(*waiting);
  EXPECT_TRUE(waiting->result->ok()) << *waiting->result;
}

TEST(MemfdSealer, WithoutAProcessNothingIsSealed) {
  MemfdSealer sealer({"/nonexistent"}, absl::Seconds(10));
  const auto sealing =
      sealer.Start(Memfd(FileDescriptor(memfd_create("test", MFD_CLOEXEC)), std::make_shared<const uid_t>(0)),
                   0, absl::UnixEpoch());
  ASSERT_TRUE(sealing->result.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*sealing->result)) << *sealing->result;
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) { return warpfold::server::SealOrTest(argc, argv); }
