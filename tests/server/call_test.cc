// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What ends calls, and what lets them in: limits on one, and admission.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "kernels/error.h"
#include "server/core/admission.h"
#include "server/core/call_timer.h"
#include "server/core/clock.h"
#include "server/core/party.h"
#include "server/core/pending_answers.h"

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

TEST(CallTimerTest, TheFirstMessageMayHaveToComeSooner) {
  CallTimer timer(kStart, absl::InfiniteFuture(), kLimits);
  timer.AwaitClient(kStart);
  EXPECT_TRUE(timer.Overdue(After(1), absl::Seconds(2)).ok());
  EXPECT_EQ(kernels::ErrorReason(timer.Overdue(After(2), absl::Seconds(2))), "IDLE");
  EXPECT_EQ(ReasonAt(timer, 9), "") << "where nobody says so";
  EXPECT_EQ(kernels::ErrorReason(timer.Overdue(After(10), absl::Seconds(20))), "IDLE");
  timer.ClientCame(After(1));
  timer.Progress(After(1), 1);
  timer.AwaitClient(After(1));
  EXPECT_TRUE(timer.Overdue(After(10), absl::Seconds(2)).ok());
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

// A byte for each idle period would keep a place for as long as a stream may last.
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

// Else room for a large array would be had by a trickle.
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
      const PendingAnswers::Entry entry(answers, kMaxPendingAnswerBytes - PendingAnswers::kCallBytes + beyond,
                                        /*half_closed=*/true);
      EXPECT_EQ(answers.Patience(kLimits.idle) < kLimits.idle, beyond > 0) << beyond;
    }
    EXPECT_EQ(answers.Patience(kLimits.idle), kLimits.idle) << "it was taken";
  }
}

TEST(ClockTest, ADeadlineKeepsItsDistance) {
  absl::Time now = kStart;
  absl::Time wall_now = kStart + absl::Hours(7);
  const Clock clock = [&] { return now; };
  const Clock wall_clock = [&] { return wall_now; };
  EXPECT_EQ(DeadlineOn(clock, wall_clock, wall_now + absl::Seconds(5)), After(5));
  now += absl::Seconds(3);
  wall_now -= absl::Hours(1);  // it was set
  EXPECT_EQ(DeadlineOn(clock, wall_clock, wall_now + absl::Seconds(5)), After(8));
  EXPECT_EQ(DeadlineOn(clock, wall_clock, absl::InfiniteFuture()), absl::InfiniteFuture());
}

TEST(AdmissionTest, AdmitsUpToTheLimit) {
  Admission admission(2);
  auto first = admission.Enter();
  ASSERT_TRUE(first.ok());
  {
    const auto second = admission.Enter();
    ASSERT_TRUE(second.ok());
    const auto third = admission.Enter();
    EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(kernels::ErrorReason(third.status()), "TOO_MANY_REDUCTIONS");
    EXPECT_EQ(admission.in_progress(), 2);
  }
  EXPECT_TRUE(admission.Enter().ok());
  EXPECT_FALSE(admission.WaitUntilEmpty(absl::ZeroDuration()));
}

TEST(AdmissionTest, EachKindHasPlacesOfItsOwn) {
  using Kind = Admission::Kind;
  Admission admission(1);
  std::vector<Admission::Ticket> tickets;
  const auto fill = [&](Kind kind, const std::string& reason) {
    const std::size_t before = tickets.size();
    absl::StatusOr<Admission::Ticket> ticket = admission.Enter(kind);
    for (; ticket.ok(); ticket = admission.Enter(kind)) tickets.push_back(*std::move(ticket));
    EXPECT_EQ(ticket.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(kernels::ErrorReason(ticket.status()), reason);
    return tickets.size() - before;
  };
  EXPECT_EQ(fill(Kind::kReduction, "TOO_MANY_REDUCTIONS"), 1u);
  EXPECT_EQ(fill(Kind::kMerge, "TOO_MANY_REDUCTIONS"), 1u) << "merges are admitted when reductions are full";
  EXPECT_EQ(fill(Kind::kSmall, "TOO_MANY_CALLS"), 56u) << "the last eighth is for other peers";
  EXPECT_EQ(fill(Kind::kWatch, "TOO_MANY_CALLS"), 896u);
  EXPECT_EQ(fill(Kind::kCheck, "TOO_MANY_CALLS"), 56u);
  EXPECT_EQ(admission.in_progress(), 2);
  tickets.erase(tickets.begin(), tickets.begin() + 2);
  EXPECT_EQ(admission.in_progress(), 0);
  EXPECT_TRUE(admission.IsQuiet(kStart)) << "calls about the server do not hold it up";
  EXPECT_FALSE(admission.Enter(Kind::kWatch).ok());
  tickets.clear();
  for (const Kind kind : {Kind::kReduction, Kind::kMerge, Kind::kSmall, Kind::kWatch, Kind::kCheck}) {
    EXPECT_TRUE(admission.Enter(kind).ok());
  }
}

TEST(AdmissionTest, NobodyGetsAllPlaces) {
  using Kind = Admission::Kind;
  Admission admission(64);
  std::vector<Admission::Ticket> tickets;
  const auto fill = [&](Kind kind, const std::string& peer) {
    int count = 0;
    for (auto ticket = admission.Enter(kind, {.peer = peer}); ticket.ok();
         ticket = admission.Enter(kind, {.peer = peer})) {
      tickets.push_back(*std::move(ticket));
      ++count;
    }
    return count;
  };
  EXPECT_EQ(fill(Kind::kReduction, "greedy"), 56);
  EXPECT_EQ(fill(Kind::kArray, "greedy"), 0);
  EXPECT_EQ(fill(Kind::kReduction, "modest"), 4) << "what is left is for small arrays";
  EXPECT_EQ(fill(Kind::kArray, "other"), 4);
  EXPECT_EQ(fill(Kind::kMerge, "greedy"), 56) << "merges have places of their own";
  EXPECT_EQ(fill(Kind::kMerge, "modest"), 8);
  tickets.clear();
  EXPECT_EQ(admission.in_progress(), 0);
  EXPECT_EQ(fill(Kind::kReduction, "modest"), 56);
}

TEST(AdmissionTest, PlacesAreShortWhenTheLastEighthIsUsed) {
  using Kind = Admission::Kind;
  Admission admission(16);
  std::vector<Admission::Ticket> tickets;
  for (const Kind kind : {Kind::kReduction, Kind::kMerge}) {
    for (int i = 0; i < 14; ++i) {
      EXPECT_FALSE(admission.IsShort(kind)) << i;
      tickets.push_back(*admission.Enter(kind));
    }
    EXPECT_TRUE(admission.IsShort(kind));
  }
  EXPECT_TRUE(admission.IsShort(Kind::kArray)) << "which share those of reductions";
  EXPECT_FALSE(admission.IsShort(Kind::kSmall));
  tickets.clear();
  EXPECT_FALSE(admission.IsShort(Kind::kArray));
}

TEST(AdmissionTest, ATicketIsGivenBackOnce) {
  Admission admission(2);
  Admission::Ticket first = *admission.Enter();
  Admission::Ticket moved = std::move(first);
  EXPECT_EQ(admission.in_progress(), 1);
  first = *admission.Enter(Admission::Kind::kMerge);
  EXPECT_EQ(admission.in_progress(), 2);
  moved = {};
  EXPECT_EQ(admission.in_progress(), 1);
  moved = std::move(first);
  first = {};
  EXPECT_EQ(admission.in_progress(), 1);
  EXPECT_TRUE(admission.Enter().ok());
}

TEST(AdmissionTest, OnceClosedItOnlyEmpties) {
  Admission admission(2);
  auto ticket = admission.Enter();
  ASSERT_TRUE(ticket.ok());
  admission.Close(absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter().status(), absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter(Admission::Kind::kMerge).status(), absl::UnavailableError("draining"));
  EXPECT_TRUE(admission.Enter(Admission::Kind::kSmall).ok());
  EXPECT_TRUE(admission.Enter(Admission::Kind::kWatch).ok());
  EXPECT_FALSE(admission.WaitUntilEmpty(absl::ZeroDuration()));
  std::thread leaver([held = std::make_unique<Admission::Ticket>(*std::move(ticket))]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that there is something to wait for
    held.reset();
  });
  admission.WaitUntilEmpty();
  EXPECT_EQ(admission.in_progress(), 0);
  leaver.join();
}

TEST(AdmissionTest, ClosedToReductionsItAdmitsMerges) {
  Admission admission(2);
  admission.CloseToReductions(absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter().status(), absl::UnavailableError("draining"));
  EXPECT_TRUE(admission.IsQuiet(kStart));
  {
    const auto first = admission.Enter(Admission::Kind::kMerge);
    const auto second = admission.Enter(Admission::Kind::kMerge);
    EXPECT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(kernels::ErrorReason(admission.Enter(Admission::Kind::kMerge).status()), "TOO_MANY_REDUCTIONS");
    EXPECT_FALSE(admission.IsQuiet(kStart));
  }
  EXPECT_TRUE(admission.IsQuiet(kStart));
  admission.Close(absl::UnavailableError("down"));
  EXPECT_EQ(admission.Enter().status(), absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter(Admission::Kind::kMerge).status(), absl::UnavailableError("down"));
}

TEST(AdmissionTest, ClosedToReductionsItAdmitsPartsOfWhatHasBegun) {
  Admission admission(2);
  { const auto part = admission.Enter(Admission::Kind::kReduction, {.array = "an array"}); }
  admission.CloseToReductions(absl::UnavailableError("draining"));
  EXPECT_TRUE(admission.Enter(Admission::Kind::kReduction, {.array = "an array"}).ok());
  for (const char* unknown : {"", "another"}) {
    EXPECT_EQ(admission.Enter(Admission::Kind::kReduction, {.array = unknown}).status(),
              absl::UnavailableError("draining"));
  }
  admission.Close(absl::UnavailableError("down"));
  EXPECT_FALSE(admission.Enter(Admission::Kind::kReduction, {.array = "an array"}).ok());
}

TEST(AdmissionTest, NamesOfArraysAreForgottenBeforeTheyAreTooMany) {
  Admission admission(1);
  const auto enter = [&](int i) {
    return admission.Enter(Admission::Kind::kReduction, {.array = std::to_string(i)}).ok();
  };
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(enter(i));
  admission.CloseToReductions(absl::UnavailableError("draining"));
  EXPECT_FALSE(enter(0));
  EXPECT_TRUE(enter(10'000 - 4096));
  EXPECT_TRUE(enter(9'999));
}

TEST(AdmissionTest, NothingFollowsFromCallsAboutTheServer) {
  using Kind = Admission::Kind;
  Admission admission(2);
  for (const Kind kind : {Kind::kSmall, Kind::kWatch, Kind::kCheck}) {
    Admission::Ticket ticket = *admission.Enter(kind);
    ticket.MarkAsPart();
    EXPECT_FALSE(admission.AwaitsCalls(kStart));
  }
  for (const Kind kind : {Kind::kReduction, Kind::kArray, Kind::kMerge}) {
    Admission::Ticket ticket = *admission.Enter(kind);
    ticket.MarkAsPart();
    EXPECT_TRUE(admission.AwaitsCalls(kStart));
  }
  EXPECT_FALSE(admission.AwaitsCalls(kStart));
}

TEST(AdmissionTest, AStateGivenOutIsWaitedForAMoment) {
  Admission admission(2);
  admission.StateGivenOut(kStart);
  EXPECT_FALSE(admission.IsQuiet(kStart + kMergeWait - absl::Nanoseconds(1)));
  EXPECT_TRUE(admission.IsQuiet(kStart + kMergeWait));
}

TEST(AdmissionTest, NeverMoreThanTheLimitAtOnce) {
  Admission admission(3);
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto ticket = admission.Enter();
        if (!ticket.ok()) continue;
        EXPECT_LE(++inside, 3);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission.in_progress(), 0);
}

TEST(PartyTest, IsAnIdentityOrAHost) {
  EXPECT_EQ(PartyOf("dns:a.example", "ipv4:192.0.2.1:50051"), "dns:a.example");
  EXPECT_EQ(PartyOf("anonymous", "ipv4:192.0.2.1:50051"), "ipv4:192.0.2.1");
  EXPECT_EQ(PartyOf("anonymous", "inproc"), "inproc");
}

TEST(PartyTest, AllLoopbackAddressesAreOneHost) {
  for (const char* const peer : {"ipv4:127.0.0.1:1", "ipv4:127.9.8.7:1", "ipv6:%5B::1%5D:1", "ipv6:[::1]:1",
                                 "ipv6:%5B::ffff:127.0.0.3%5D:2"}) {
    EXPECT_EQ(PartyOf("anonymous", peer), "ipv4:127.0.0.1") << peer;
  }
  EXPECT_EQ(PartyOf("anonymous", "ipv4:128.0.0.1:1"), "ipv4:128.0.0.1");
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5B::2%5D:1"), "ipv6:::");
  EXPECT_EQ(PartyOf("anonymous", "ipv4:127.0.0:1"), "ipv4:127.0.0") << "which is no address";
}

TEST(PartyTest, AHostHasAllAddressesOfItsIpv6Network) {
  const std::string host = "ipv6:2001:db8:0:1::";
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5B2001:db8:0:1::7%5D:50051"), host);
  EXPECT_EQ(PartyOf("anonymous", "ipv6:[2001:db8:0:1:ffff::1]:1"), host);
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5Bfe80::1%25eth0%5D:1"), "ipv6:fe80::");
  EXPECT_NE(PartyOf("anonymous", "ipv6:%5B2001:db8:0:2::7%5D:50051"), host);
  EXPECT_EQ(PartyOf("anonymous", "ipv6:%5B::ffff:192.0.2.1%5D:2"), "ipv4:192.0.2.1");
  EXPECT_EQ(PartyOf("anonymous", "ipv6:nonsense:1"), "ipv6:nonsense");
}

}  // namespace
}  // namespace warpfold::server
