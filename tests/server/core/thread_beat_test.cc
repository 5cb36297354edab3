// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/thread_beat.h"

#include <gtest/gtest.h>

namespace warpfold::server {
namespace {

class ThreadBeatTest : public testing::Test {
 protected:
  // Asks twenty times a second, as the watchdog does, and returns the last result.
  absl::Duration AskFor(absl::Duration time, absl::Duration computes_between = absl::ZeroDuration()) {
    absl::Duration rests;
    for (const absl::Time end = now_ + time; now_ < end;) {
      now_ += absl::Milliseconds(50);
      computed_ += computes_between;
      rests = beat_.RestsFor(now_, computed_);
    }
    return rests;
  }

  ThreadBeat beat_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Duration computed_ = absl::Seconds(7);
};

TEST_F(ThreadBeatTest, OneThatDoesNothingIsHeldUp) {
  AskFor(absl::Milliseconds(50));
  EXPECT_EQ(AskFor(absl::Seconds(15)), absl::Seconds(15));
  beat_.Beat();
  EXPECT_EQ(AskFor(absl::Milliseconds(50)), absl::ZeroDuration());
  EXPECT_EQ(AskFor(absl::Seconds(2)), absl::Seconds(2));
}

TEST_F(ThreadBeatTest, OneThatComesRoundIsNot) {
  for (int turn = 0; turn < 100; ++turn) {
    beat_.Beat();
    EXPECT_LE(AskFor(ThreadBeat::kLongestRest), ThreadBeat::kLongestRest);
  }
}

TEST_F(ThreadBeatTest, OneThatComputesIsNot) {
  EXPECT_EQ(AskFor(absl::Hours(1), absl::Nanoseconds(1)), absl::ZeroDuration());
}

TEST_F(ThreadBeatTest, AProcessThatWasSuspendedHasNotWatched) {
  AskFor(absl::Seconds(1));
  now_ += absl::Hours(1);
  EXPECT_LT(AskFor(absl::Milliseconds(50)), absl::Seconds(3));
}

}  // namespace
}  // namespace warpfold::server
