// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
// What ends calls: limits on one, the registry of all, admission, and the threads they run on.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "kernels/error.h"
#include "server/admission.h"
#include "server/call_control.h"
#include "server/call_registry.h"
#include "server/clock.h"
#include "server/worker_pool.h"

namespace warpfold::server {
namespace {

const absl::Time kStart = absl::UnixEpoch();
constexpr CallLimits kLimits = {.idle = absl::Seconds(10), .duration = absl::Seconds(60)};

absl::Time After(int seconds) { return kStart + absl::Seconds(seconds); }

TEST(CallControlTest, IdlenessCountsFromTheLastProgress) {
  CallControl call(kStart, absl::InfiniteFuture(), kLimits);
  EXPECT_TRUE(call.Overdue(After(9)).ok());
  EXPECT_EQ(kernels::ErrorReason(call.Overdue(After(10))), "IDLE");
  call.MessageCame();
  call.Progress(After(20));
  call.MessageDone();
  EXPECT_TRUE(call.Overdue(After(29)).ok());
  call.MessageCame();  // one without anything in it
  call.MessageDone();
  const absl::Status overdue = call.Overdue(After(30));
  EXPECT_EQ(overdue.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(kernels::ErrorReason(overdue), "IDLE");
}

TEST(CallControlTest, NobodyIsIdleWhoseMessagesTheServerHas) {
  CallControl call(kStart, absl::InfiniteFuture(), kLimits);
  call.MessageCame();
  call.MessageCame();
  EXPECT_TRUE(call.Overdue(After(50)).ok());
  call.Progress(After(50));
  call.MessageDone();
  call.MessageDone();
  EXPECT_TRUE(call.Overdue(After(59)).ok());
  call.MessageCame();  // the end
  EXPECT_EQ(kernels::ErrorReason(call.Overdue(After(60))), "DURATION");
}

TEST(CallControlTest, DurationAndDeadline) {
  const CallControl call(kStart, absl::InfiniteFuture(), {.duration = absl::Seconds(60)});
  EXPECT_TRUE(call.Overdue(After(59)).ok());
  EXPECT_EQ(kernels::ErrorReason(call.Overdue(After(60))), "DURATION");

  const CallControl hurried(kStart, After(5), kLimits);
  EXPECT_TRUE(hurried.Overdue(After(4)).ok());
  EXPECT_EQ(kernels::ErrorReason(hurried.Overdue(After(5))), "DEADLINE");
}

TEST(CallControlTest, TheFirstReasonToStopStays) {
  CallControl call(kStart, absl::InfiniteFuture(), kLimits);
  EXPECT_FALSE(call.stopped());
  EXPECT_TRUE(call.Stop(absl::CancelledError("first")));
  EXPECT_FALSE(call.Stop(absl::CancelledError("second")));
  EXPECT_TRUE(call.stopped());
  EXPECT_EQ(call.status(), absl::CancelledError("first"));
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

TEST(CallRegistryTest, SweepStopsWhatIsOverdueOnce) {
  CallRegistry registry;
  int stopped_short = 0;
  int stopped_long = 0;
  auto short_call = std::make_shared<CallControl>(kStart, After(5), CallLimits());
  auto long_call = std::make_shared<CallControl>(kStart, After(50), CallLimits());
  const auto first = registry.Add(short_call, [&] { ++stopped_short; });
  auto second =
      std::make_unique<CallRegistry::Registration>(registry.Add(long_call, [&] { ++stopped_long; }));
  registry.Sweep(After(4));
  EXPECT_EQ(stopped_short, 0);
  registry.Sweep(After(5));
  registry.Sweep(After(6));
  EXPECT_EQ(stopped_short, 1);
  EXPECT_EQ(stopped_long, 0);
  second.reset();
  registry.Sweep(After(100));
  registry.StopAll(absl::UnavailableError("down"));
  EXPECT_EQ(stopped_short, 1);
  EXPECT_EQ(stopped_long, 0);
  EXPECT_FALSE(long_call->stopped());
}

TEST(CallRegistryTest, StopAllGivesItsReason) {
  CallRegistry registry;
  std::vector<std::shared_ptr<CallControl>> calls;
  std::vector<CallRegistry::Registration> registrations;
  int stopped = 0;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(std::make_shared<CallControl>(kStart, absl::InfiniteFuture(), kLimits));
    registrations.push_back(registry.Add(calls.back(), [&] { ++stopped; }));
  }
  registry.StopAll(absl::UnavailableError("down"));
  EXPECT_EQ(stopped, 3);
  for (const auto& call : calls) EXPECT_EQ(call->status(), absl::UnavailableError("down"));
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

TEST(AdmissionTest, OnceClosedItOnlyEmpties) {
  Admission admission(2);
  auto ticket = admission.Enter();
  ASSERT_TRUE(ticket.ok());
  admission.Close(absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter().status(), absl::UnavailableError("draining"));
  EXPECT_EQ(admission.Enter(Admission::Kind::kMerge).status(), absl::UnavailableError("draining"));
  EXPECT_FALSE(admission.WaitUntilEmpty(absl::ZeroDuration()));
  std::thread leaver(
      [held = std::make_unique<Admission::Ticket>(*std::move(ticket))]() mutable { held.reset(); });
  admission.WaitUntilEmpty();
  leaver.join();
  EXPECT_EQ(admission.in_progress(), 0);
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

TEST(WorkerPoolTest, RunsEverythingBeforeItEnds) {
  std::atomic<int> done = 0;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 100; ++i) {
      pool.Run([&] {
        pool.Run([&] { ++done; });
        ++done;
      });
    }
  }
  EXPECT_EQ(done, 200);
}

TEST(WorkerPoolTest, IsContendedWhileTasksWait) {
  std::atomic<bool> seen = false;
  {
    WorkerPool pool(1);
    pool.Run([&] {
      EXPECT_FALSE(pool.contended());
      pool.Run([] {});
      seen = pool.contended();
    });
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace warpfold::server
