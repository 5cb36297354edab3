// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The process that reads GPU memory first, on a clock that the test moves.
#include "server/memory/handle_prober.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/error.h"
#include "tests/server/memory/fake_probes.h"

namespace warpfold::server {
namespace {

class HandleProberTest : public testing::Test {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  static constexpr uid_t kUser = 1000;
  static constexpr uid_t kOther = 1001;

  std::shared_ptr<const Probing> Start(Fate fate, uid_t user = kUser, std::uint64_t offset = 0,
                                       std::uint64_t count = 4096) {
    kernels::ProcessMemory memory = {.byte_offset = offset, .byte_count = count};
    memory.handle[0] = static_cast<std::byte>(fate);
    return prober_.Start(memory, user, now_);
  }
  // Waits for what the process does, and checks whether a process that was killed is gone.
  void AdvanceOnce() {
    std::vector<pollfd> watched;
    prober_.Watch(&watched);
    poll(watched.data(), watched.size(), 10);
    prober_.Advance(now_);
  }
  absl::Status Await(const Probing& probing) {
    for (int i = 0; i < 1000 && !probing.result.has_value(); ++i) AdvanceOnce();
    return probing.result.value_or(absl::UnknownError("there is no result after ten seconds"));
  }
  absl::Status Probe(Fate fate, std::uint64_t offset = 0, std::uint64_t count = 4096) {
    return Await(*Start(fate, kUser, offset, count));
  }

  static void ExpectBad(const absl::Status& status, absl::string_view message) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(kernels::ErrorReason(status), "BAD_MEMORY");
    EXPECT_EQ(status.message(), message);
  }
  void ExpectBad(Fate fate, absl::string_view message) { ExpectBad(Probe(fate), message); }
  void ExpectHangs() {
    const auto hanging = Start(Fate::kHangs);
    now_ = prober_.deadline(now_);
    ExpectBad(Await(*hanging), kDoesNotEnd);
  }

  static constexpr char kDoesNotEnd[] = "reading the memory of the handle does not end";
  static constexpr char kEndsIt[] = "reading the memory of the handle ends the process that does it";

  absl::Time now_ = absl::UnixEpoch();
  HandleProber prober_{{"/proc/self/exe", kProbeFlag}, kPatience};
};

TEST_F(HandleProberTest, WhatCanBeReadIsGood) {
  EXPECT_TRUE(Probe(Fate::kGood).ok());
  ExpectBad(Fate::kBad, "no such memory");
  EXPECT_TRUE(Probe(Fate::kGood).ok());
}

TEST_F(HandleProberTest, APartOfWhatWasReadIsNotReadAgain) {
  EXPECT_TRUE(Probe(Fate::kGoodOnce, 4096, 8192).ok());
  EXPECT_TRUE(Probe(Fate::kGoodOnce, 4096, 8192).ok());
  EXPECT_TRUE(Probe(Fate::kGoodOnce, 8192, 4096).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 4096, 8193).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 4095, 2).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 12288, 1).ok());
  EXPECT_FALSE(Probe(Fate::kGoodOnce, 0, ~std::uint64_t{0}).ok());
}

TEST_F(HandleProberTest, WhoeverReadsItMayEndAndTheNextIsProbedAllTheSame) {
  for (int i = 0; i < 3; ++i) {
    ExpectBad(Fate::kFaults, "CUDA error 700");
    ExpectBad(Fate::kCrashes, kEndsIt);
    EXPECT_TRUE(Probe(Fate::kGood, 4096 * (i + 1)).ok());
  }
  EXPECT_TRUE(Probe(Fate::kLast).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it ends by itself
  EXPECT_TRUE(Probe(Fate::kGood, 1 << 20).ok());
  ExpectHangs();
  EXPECT_TRUE(Probe(Fate::kGood, 0).ok());
}

TEST_F(HandleProberTest, OtherErrorsStayWhatTheyAre) {
  const absl::Status status = Probe(Fate::kNoRoom);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(status.message().size(), 400u);
}

// A user with many handles that hang keeps another user waiting for only one of them.
TEST_F(HandleProberTest, UsersTakeTurns) {
  EXPECT_TRUE(Probe(Fate::kGood, 1 << 20).ok());  // the process has begun
  std::vector<std::shared_ptr<const Probing>> hanging;
  for (int i = 0; i < 20; ++i) hanging.push_back(Start(Fate::kHangs));
  const auto first = Start(Fate::kGood, kOther, 0);
  const auto second = Start(Fate::kGood, kOther, 4096);
  now_ += kPatience;
  EXPECT_TRUE(Await(*first).ok());
  ExpectBad(hanging[0]->result.value_or(absl::OkStatus()), kDoesNotEnd);
  EXPECT_FALSE(hanging[1]->result.has_value());
  EXPECT_FALSE(second->result.has_value()) << "a user had two turns";
  now_ += kPatience;
  EXPECT_TRUE(Await(*second).ok());
  EXPECT_TRUE(hanging[1]->result.has_value());
  EXPECT_FALSE(hanging[2]->result.has_value());
}

TEST_F(HandleProberTest, WhatWasReadIsKnownAtOnceWhileAnotherHangs) {
  EXPECT_TRUE(Probe(Fate::kGood).ok());
  const auto hanging = Start(Fate::kHangs);
  const auto same = Start(Fate::kGood, kOther);
  ASSERT_TRUE(same->result.has_value());
  EXPECT_TRUE(same->result->ok());
  EXPECT_FALSE(hanging->result.has_value());
}

TEST_F(HandleProberTest, WhatNobodyWantsAnyMoreIsNotProbed) {
  const auto hanging = Start(Fate::kHangs);
  Start(Fate::kHangs, kOther).reset();
  const auto last = Start(Fate::kGood);
  now_ += kPatience;
  EXPECT_TRUE(Await(*last).ok());
  // Nor does a handle that is being probed keep the next waiting for longer than if it were wanted.
  Start(Fate::kHangs).reset();
  now_ += kPatience;
  EXPECT_TRUE(Probe(Fate::kGood, 4096).ok());
}

// Even if the process is asked about others in the meantime, and whatever becomes of it.
TEST_F(HandleProberTest, WhatEndedAProcessIsAskedOnceMore) {
  EXPECT_TRUE(Probe(Fate::kGood).ok());
  const auto first = Start(Fate::kCrashes);
  const auto second = Start(Fate::kFaults, kOther);
  const auto third = Start(Fate::kGoodOnce, kOther);
  ExpectBad(Await(*first), kEndsIt);
  EXPECT_FALSE(second->result.has_value()) << "it was not asked again at once";
  ExpectBad(Await(*second), "CUDA error 700");
  EXPECT_TRUE(Await(*third).ok());
}

TEST_F(HandleProberTest, NothingIsAwaitedOfAProcessThatHasNothingToDo) {
  EXPECT_EQ(prober_.deadline(now_), absl::InfiniteFuture());
  const auto slow = Start(Fate::kSlow);
  EXPECT_EQ(prober_.deadline(now_), now_ + kPatience);
  EXPECT_TRUE(Await(*slow).ok());
  EXPECT_EQ(prober_.deadline(now_), absl::InfiniteFuture());
}

// A process that cannot be started, one that ends before it has read anything, and one that takes too long.
TEST(HandleProber, WithoutAProcessNothingIsGood) {
  using Command = std::vector<std::string>;
  for (const Command& command : {Command{"/nonexistent"}, {"/bin/false"}, {"/bin/sleep", "60"}}) {
    HandleProber prober(command);
    absl::Time now = absl::UnixEpoch();
    const auto probing = prober.Start({.byte_count = 1}, 0, now);
    for (int i = 0; i < 1000 && !probing->result.has_value(); ++i) {
      std::vector<pollfd> watched;
      prober.Watch(&watched);
      poll(watched.data(), watched.size(), 10);
      if (i > 0) now += absl::Seconds(1);
      prober.Advance(now);
    }
    ASSERT_TRUE(probing->result.has_value()) << command.front();
    EXPECT_TRUE(absl::IsUnavailable(*probing->result)) << *probing->result;
    EXPECT_EQ(kernels::ErrorReason(*probing->result), "NO_PROBER");
  }
}

}  // namespace
}  // namespace warpfold::server

int main(int argc, char** argv) {
  using namespace warpfold::server;  // NOLINT(google-build-using-namespace): this is its main
  if (Probes(argc, argv)) return ServeProbes(ReadFake);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
