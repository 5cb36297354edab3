// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Limits end calls: these tests are about the limits on the time of one call, and on responses that nobody
// reads.
#include "server/core/calls/call_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "kernels/error.h"
#include "server/core/admission/pending_answers.h"
#include "server/core/clock.h"
#include "server/core/limits.h"

namespace warpfold::server {
namespace {

const absl::Time kStart = absl::UnixEpoch();
constexpr CallLimits kLimits = {.idle = absl::Seconds(10), .duration = absl::Seconds(60)};

absl::Time After(int seconds) { return kStart + absl::Seconds(seconds); }

std::string ReasonAt(const CallTimer& timer, int seconds) {
  const absl::Status overdue = timer.Overdue(After(seconds));
  EXPECT_TRUE(overdue.ok() || overdue.code() == absl::StatusCode::kDeadlineExceeded) << overdue;
  return kernels::ErrorReason(overdue);
}

TEST(CallTimerTest, IdlenessCountsFromTheLastProgress) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(kStart);
  EXPECT_EQ(ReasonAt(timer, 9), "");
  EXPECT_EQ(ReasonAt(timer, 10), "IDLE");
  EXPECT_EQ(ReasonAt(timer, 11), "IDLE");
  timer.ClientCame(After(20));
  timer.Progress(After(20), kLimits.pace_bytes);
  timer.AwaitClient(After(20));
  EXPECT_EQ(ReasonAt(timer, 29), "");
  EXPECT_EQ(ReasonAt(timer, 30), "IDLE");
}

TEST(CallTimerTest, PatienceMayBeShorterThanTheLimit) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(kStart);
  EXPECT_TRUE(timer.Overdue(After(1), absl::Seconds(2)).ok());
  const absl::Status overdue = timer.Overdue(After(2), absl::Seconds(2));
  EXPECT_EQ(kernels::ErrorReason(overdue), "IDLE");
  EXPECT_EQ(overdue.message(), "the client sent nothing for 2 s") << "which no flag says";
  EXPECT_EQ(ReasonAt(timer, 9), "") << "where nobody says so";
  const absl::Status by_limit = timer.Overdue(After(10), absl::Seconds(20));
  EXPECT_EQ(by_limit.message(),
            "the client was idle for idle_timeout_seconds = 10: it sent no bytes and no half-close, and read "
            "no results");
}

// The message came while the server waited for the client to read, and then waited for its turn.
TEST(CallTimerTest, ProgressCountsFromWhenTheMessageCame) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(kStart);
  timer.Progress(After(3), kLimits.pace_bytes);  // found out at 8
  EXPECT_EQ(ReasonAt(timer, 12), "");
  EXPECT_EQ(ReasonAt(timer, 13), "IDLE");
  timer.Progress(After(9), 2 * kLimits.pace_bytes);
  timer.Progress(After(4), 3 * kLimits.pace_bytes);  // progress since then stays
  EXPECT_EQ(ReasonAt(timer, 18), "");
  EXPECT_EQ(ReasonAt(timer, 19), "IDLE");
}

TEST(CallTimerTest, EmptyChunksAreNoProgress) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(kStart);
  for (int second = 1; second < 10; ++second) {
    timer.ClientCame(After(second));
    timer.AwaitClient(After(second));
  }
  EXPECT_EQ(ReasonAt(timer, 9), "");
  EXPECT_EQ(ReasonAt(timer, 10), "IDLE");
}

TEST(CallTimerTest, NobodyIsIdleWhileTheServerIsAtWork) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  EXPECT_EQ(ReasonAt(timer, 59), "") << "nothing has been asked of the client";
  EXPECT_EQ(ReasonAt(timer, 60), "DURATION");
  timer.AwaitClient(kStart);
  timer.ClientCame(After(9));
  EXPECT_EQ(ReasonAt(timer, 59), "");
}

TEST(CallTimerTest, TheServersTimeIsNotTheClients) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(After(3));   // the server's: 3 seconds
  timer.ClientCame(After(7));    // the client's: 4
  timer.AwaitClient(After(27));  // the server's: 20
  EXPECT_EQ(ReasonAt(timer, 32), "");
  EXPECT_EQ(ReasonAt(timer, 33), "IDLE");
  // With progress before the server's time began.
  timer.ClientCame(After(30));
  timer.Progress(After(30), kLimits.pace_bytes);
  timer.AwaitClient(After(40));
  EXPECT_EQ(ReasonAt(timer, 49), "");
  EXPECT_EQ(ReasonAt(timer, 50), "IDLE");
}

// A message may wait for its turn before it is taken, and its call for a slot after that.
TEST(CallTimerTest, WhatComesLateIntoTheServersTimeIsNotCountedTwice) {
  CallTimer idle(kStart, absl::InfiniteFuture(), kLimits);
  idle.AwaitClient(kStart);
  idle.ClientCame(After(1));
  idle.Progress(After(6), 1);
  idle.AwaitClient(After(8));
  EXPECT_EQ(ReasonAt(idle, 17), "");
  EXPECT_EQ(ReasonAt(idle, 18), "IDLE");

  CallTimer slow(kStart, absl::InfiniteFuture(), kLimits);
  slow.AwaitClient(kStart);
  slow.ClientCame(After(1));
  slow.Progress(After(6), kLimits.pace_bytes);
  slow.AwaitClient(After(8));
  slow.ClientCame(After(17));
  slow.Progress(After(17), kLimits.pace_bytes + 1);
  slow.AwaitClient(After(17));
  slow.ClientCame(After(26));
  slow.Progress(After(26), kLimits.pace_bytes + 2);
  slow.AwaitClient(After(26));
  EXPECT_EQ(ReasonAt(slow, 27), "");
  EXPECT_EQ(ReasonAt(slow, 28), "RATE");
}

TEST(CallTimerTest, AwaitingTwiceIsAwaiting) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(kStart);
  timer.AwaitClient(After(5));
  EXPECT_EQ(ReasonAt(timer, 10), "IDLE");
  timer.ClientCame(After(6));
  timer.ClientCame(After(8));
  timer.AwaitClient(After(8));
  EXPECT_EQ(ReasonAt(timer, 11), "") << "it came after 6 seconds";
  EXPECT_EQ(ReasonAt(timer, 12), "IDLE");
}

// A byte in each idle period would keep a place for as long as a stream may last.
TEST(CallTimerTest, ATrickleIsNoPace) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(kStart);
  for (int second = 5; second < 20; second += 5) {
    EXPECT_EQ(ReasonAt(timer, second), "");
    timer.ClientCame(After(second));
    timer.Progress(After(second), static_cast<std::uint64_t>(second));
    timer.AwaitClient(After(second));
  }
  EXPECT_EQ(ReasonAt(timer, 19), "");
  EXPECT_EQ(ReasonAt(timer, 20), "RATE");
  timer.Progress(After(19), kLimits.pace_bytes - 1);
  EXPECT_EQ(ReasonAt(timer, 20), "RATE") << "no full measure";
  EXPECT_EQ(ReasonAt(timer, 21), "RATE");
  for (const std::uint64_t more : {0, 1}) {
    CallTimer enough = timer;
    enough.Progress(After(19), kLimits.pace_bytes + more);
    EXPECT_EQ(ReasonAt(enough, 28), "");
  }
}

// Otherwise a trickle would be enough to get room for a large array.
TEST(CallTimerTest, WhoReservesMuchMustBeFaster) {
  constexpr std::uint64_t kReserved = std::uint64_t{1} << 30;
  for (const int short_of : {0, 1}) {
    CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
    timer.AwaitClient(kStart);
    timer.Reserve(kReserved);
    timer.Progress(After(9), kReserved / 16 - short_of);
    timer.Progress(After(18), kReserved / 16 - short_of);
    EXPECT_EQ(ReasonAt(timer, 20), short_of > 0 ? "RATE" : "");
  }
  CallTimer modest(kStart, absl::InfiniteFuture(), kLimits);
  modest.AwaitClient(kStart);
  modest.Reserve(16 * kLimits.pace_bytes - 1);
  modest.Progress(After(18), kLimits.pace_bytes - 1);
  EXPECT_EQ(ReasonAt(modest, 20), "RATE") << "never less than others";
}

TEST(CallTimerTest, DurationAndDeadline) {
  CallTimer timer(kStart, absl::InfiniteFuture(), {.duration = absl::Seconds(60)});
  timer.AwaitClient(kStart);
  EXPECT_EQ(ReasonAt(timer, 59), "");
  EXPECT_EQ(ReasonAt(timer, 60), "DURATION");
  EXPECT_EQ(ReasonAt(timer, 61), "DURATION");
  const absl::Status overdue = timer.Overdue(After(60));
  EXPECT_THAT(kernels::ErrorDetails(overdue),
              testing::UnorderedElementsAre(testing::Pair("limit", "max_stream_seconds"),
                                            testing::Pair("seconds", "60")));

  const CallTimer hurried(kStart, After(5), kLimits);
  EXPECT_EQ(ReasonAt(hurried, 4), "");
  EXPECT_EQ(ReasonAt(hurried, 5), "DEADLINE");
  EXPECT_EQ(hurried.start(), kStart);
}

TEST(PendingAnswersTest, PatienceUpToTheLimit) {
  for (const int beyond : {-1, 0, 1}) {
    PendingAnswers answers;
    {
      const PendingAnswers::Entry entry(
          answers, "a", kMaxPendingAnswerBytes - PendingAnswers::kCallBytes + beyond, /*half_closed=*/true);
      EXPECT_EQ(answers.Patience(kLimits.idle, "a") < kLimits.idle, beyond > 0) << beyond;
      EXPECT_EQ(answers.Patience(kLimits.idle, "b"), kLimits.idle) << "who holds nothing";
    }
    EXPECT_EQ(answers.Patience(kLimits.idle, "a"), kLimits.idle) << "it was taken";
  }
}

TEST(PendingAnswersTest, WhoHasNoMoreThanAnEqualShareIsNotHurried) {
  PendingAnswers answers;
  constexpr std::uint64_t kShare = kMaxPendingAnswerBytes / 2 - PendingAnswers::kCallBytes;
  const PendingAnswers::Entry greedy(answers, "greedy", kMaxPendingAnswerBytes, /*half_closed=*/true);
  std::optional<PendingAnswers::Entry> modest;
  modest.emplace(answers, "modest", kShare, /*half_closed=*/true);
  EXPECT_EQ(answers.Patience(kLimits.idle, "modest"), kLimits.idle);
  EXPECT_LT(answers.Patience(kLimits.idle, "greedy"), kLimits.idle);
  modest.emplace(answers, "modest", kShare + 1, /*half_closed=*/true);
  EXPECT_LT(answers.Patience(kLimits.idle, "modest"), kLimits.idle);
  const PendingAnswers::Entry third(answers, "third", 0, /*half_closed=*/true);
  EXPECT_EQ(answers.Patience(kLimits.idle, "third"), kLimits.idle);
}

}  // namespace
}  // namespace warpfold::server
