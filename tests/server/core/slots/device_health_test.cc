// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slots/device_health.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "server/core/calls/service.h"
#include "server/core/calls/shard.h"
#include "server/core/slots/canary.h"
#include "server/core/slots/slot_pool.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kMegabyte = 1'000'000;
constexpr absl::Duration kTick = absl::Milliseconds(50);

kernels::ReductionPlan SumOfInts() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kInt32;
  return kernels::ReductionPlan::Create(spec).value();
}

// Of a device whose slots say nothing else.
absl::Duration DeadlineOf(std::uint64_t bytes) { return DeviceDeadline(bytes, absl::Microseconds(1)); }

TEST(DeviceDeadlineTest, GrowsWithTheBytes) {
  EXPECT_EQ(DeadlineOf(0), absl::Seconds(10));
  EXPECT_EQ(DeadlineOf(kMegabyte), absl::Seconds(11));
  EXPECT_EQ(DeadlineOf(50'000 * kMegabyte), absl::Seconds(50'010));
  EXPECT_GT(DeadlineOf(~std::uint64_t{0}), absl::Hours(1)) << "no overflow";
  // A GPU, which reduces gigabytes in one start.
  EXPECT_EQ(DeviceDeadline(4'000 * kMegabyte, absl::Nanoseconds(20)), absl::Seconds(90));
}

TEST(WatchedTimeTest, CountsOnlyWhatIsWatched) {
  absl::Time now = absl::UnixEpoch();
  WatchedTime lasts;
  EXPECT_EQ(lasts.Advance(now), absl::ZeroDuration());
  EXPECT_EQ(lasts.Advance(now += absl::Milliseconds(300)), absl::Milliseconds(300));
  EXPECT_EQ(lasts.Advance(now += WatchedTime::kLongestGap), absl::Milliseconds(1300));
  EXPECT_EQ(lasts.Advance(now += absl::Hours(1)), absl::Milliseconds(2300)) << "the process was suspended";
  EXPECT_EQ(lasts.Advance(now - absl::Hours(2)), absl::Milliseconds(2300)) << "a clock that goes back";
}

TEST(DeviceCallsTest, LastUntilTheyReturn) {
  absl::Time now = absl::UnixEpoch();
  DeviceCalls calls;
  const auto watch = [&](absl::Duration time) {
    absl::Duration lasted;
    for (const absl::Time end = now + time; now < end; now += kTick) lasted = calls.LastsFor(now);
    return lasted;
  };
  EXPECT_LE(watch(absl::Seconds(20)), absl::ZeroDuration()) << "there is none";
  for (int i = 0; i < 10; ++i) {
    const DeviceCalls::Scope call(calls);
    EXPECT_LT(watch(absl::Seconds(2)), absl::Seconds(2));
  }
  EXPECT_LE(watch(absl::Seconds(20)), absl::ZeroDuration());
  const DeviceCalls::Scope call(calls);
  EXPECT_GT(watch(absl::Seconds(20)), absl::Seconds(19));
}

class DeviceHealthTest : public testing::Test {
 protected:
  // Looks at the device for this long, as a shard does.
  void Watch(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end; now_ += kTick) {
      pool_.Poll();
      pool_.CheckDeadlines(now_);
    }
  }
  void Start(SlotPool& pool, std::uint64_t bytes) {
    kernels::Slot* const slot = pool.Take(holder_);
    ASSERT_NE(slot, nullptr);
    ASSERT_TRUE(pool.Started(holder_, slot, slot->Start(SumOfInts(), 0, 1024),
                             {.memory = nullptr, .poll = {}, .bytes = bytes})
                    .ok());
  }
  bool lost() const { return !device_.fault().ok(); }

  FakeBackend backend_{3};
  DeviceHealth device_{backend_};
  SlotPool pool_{SlotsOf(backend_), &device_};
  CountingHolder holder_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(DeviceHealthTest, TheFirstFailureStays) {
  EXPECT_TRUE(device_.fault().ok());
  device_.Lose("the first");
  device_.Lose("the second");
  EXPECT_EQ(device_.fault().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device_.fault().message(), "the first");
  EXPECT_EQ(kernels::ErrorReason(device_.fault()), "DEVICE_LOST");
}

TEST_F(DeviceHealthTest, TheBackendsWordCounts) {
  backend_.faulty = true;
  EXPECT_EQ(device_.fault(), DeviceLost());
}

TEST_F(DeviceHealthTest, WorkThatDoesNotEndIsALoss) {
  backend_.behaviour.SetBlocked(true);
  Start(pool_, 2 * kMegabyte);
  Watch(DeadlineOf(2 * kMegabyte) - kTick);
  EXPECT_FALSE(lost());
  Watch(2 * kTick);
  EXPECT_TRUE(lost());
  backend_.behaviour.FinishAll();
}

TEST_F(DeviceHealthTest, ItsSlotsSayHowLongAByteMayTake) {
  backend_.behaviour.SetBlocked(true);
  backend_.behaviour.most_time_per_byte = absl::Nanoseconds(20);
  Start(pool_, 1'000 * kMegabyte);
  Watch(absl::Seconds(30) - kTick);
  EXPECT_FALSE(lost());
  Watch(2 * kTick);
  EXPECT_TRUE(lost());
  backend_.behaviour.FinishAll();
}

TEST_F(DeviceHealthTest, WorkThatEndsIsNone) {
  backend_.behaviour.SetBlocked(true);
  for (int i = 0; i < 5; ++i) {
    Start(pool_, 0);
    Watch(DeadlineOf(0) - kTick);
    backend_.behaviour.FinishAll();
    pool_.Poll();
  }
  Watch(DeadlineOf(0));
  EXPECT_FALSE(lost());
}

// A device may process what it is given in the order in which it comes, from whichever shard.
TEST_F(DeviceHealthTest, WhatCameBeforeCountsToo) {
  FakeBackend slots_of_another(1);
  SlotPool other(SlotsOf(slots_of_another), &device_);
  slots_of_another.behaviour.SetBlocked(true);
  backend_.behaviour.SetBlocked(true);
  Start(other, 30 * kMegabyte);
  Start(pool_, kMegabyte);
  Watch(DeadlineOf(31 * kMegabyte) - kTick);
  EXPECT_FALSE(lost());
  Watch(2 * kTick);
  EXPECT_TRUE(lost());
  slots_of_another.behaviour.FinishAll();
  other.Poll();
  backend_.behaviour.FinishAll();
}

TEST_F(DeviceHealthTest, WhatIsDoneCountsNoMore) {
  backend_.behaviour.SetBlocked(true);
  Start(pool_, 30 * kMegabyte);
  backend_.behaviour.FinishAll();
  pool_.Poll();
  backend_.behaviour.SetBlocked(true);
  Start(pool_, 0);
  Watch(DeadlineOf(0) + kTick);
  EXPECT_TRUE(lost());
  backend_.behaviour.FinishAll();
}

TEST_F(DeviceHealthTest, ASuspendedProcessBlamesNobody) {
  backend_.behaviour.SetBlocked(true);
  Start(pool_, 0);
  for (int i = 0; i < 8; ++i) {
    Watch(2 * kTick);
    now_ += absl::Hours(1);
  }
  EXPECT_FALSE(lost());
  backend_.behaviour.FinishAll();
}

// As at the start of the server.
TEST(AwaitSlotTest, GivesUpAfterTheDeadlineOfTheBytes) {
  constexpr absl::Duration kStep = absl::Milliseconds(500);
  FakeBackend backend;
  kernels::Slot& slot = *backend.slots().front();
  absl::Time now = absl::UnixEpoch();
  const Clock clock = [&now] { return now += kStep; };
  ASSERT_TRUE(slot.Start(SumOfInts(), 0, 1024).ok());
  EXPECT_TRUE(AwaitSlot(slot, kMegabyte, clock).ok());
  EXPECT_EQ(now, absl::UnixEpoch()) << "it has finished: no time passes";
  ASSERT_TRUE(slot.Wait().ok());

  backend.behaviour.SetBlocked(true);
  ASSERT_TRUE(slot.Start(SumOfInts(), 0, 1024).ok());
  EXPECT_EQ(kernels::ErrorReason(AwaitSlot(slot, kMegabyte, clock)), "DEVICE_LOST");
  EXPECT_EQ(now - absl::UnixEpoch(), DeadlineOf(kMegabyte) + kStep) << "the first call counts nothing";
  backend.behaviour.FinishAll();
}

// A failed device calls nobody back: the shard must not wait for that until its next tick.
TEST(ShardOfALostDeviceTest, AsksADeviceThatSaysNothing) {
  absl::Time now = absl::UnixEpoch();
  FakeBackend backend;
  Service service(backend, Limits{}, [&now] { return now; });
  Shard shard(service, SlotsOf(backend));
  CountingHolder holder;
  EXPECT_EQ(shard.LongestWait(kTick), Canary::kInterval);
  backend.behaviour.SetBlocked(true);
  kernels::Slot* const slot = shard.slots().Take(holder);
  ASSERT_TRUE(shard.slots().Started(holder, slot, slot->Start(SumOfInts(), 0, 1024)).ok());
  EXPECT_LE(shard.LongestWait(kTick), absl::Milliseconds(10));
  EXPECT_LE(shard.LongestWait(absl::ZeroDuration()), absl::ZeroDuration());
  backend.behaviour.Finish(0, DeviceLost());  // without a notice: none was asked for
  shard.OnDeviceFinished();
  ASSERT_EQ(holder.finished.size(), 1u);
  EXPECT_EQ(holder.finished[0].second, DeviceLost());
  EXPECT_EQ(shard.LongestWait(kTick), Canary::kInterval);
}

TEST(ServiceTest, HealthDoesNotWaitForTheWatchdog) {
  FakeBackend backend;
  Service service(backend, Limits{}, absl::Now);
  EXPECT_TRUE(service.is_serving());
  backend.faulty = true;
  EXPECT_FALSE(service.is_serving());
  backend.faulty = false;
  service.serving = false;
  EXPECT_FALSE(service.is_serving()) << "it drains";
}

class CanaryTest : public DeviceHealthTest {
 protected:
  void Tick(absl::Duration time) {
    now_ += time;
    pool_.Poll();
    pool_.CheckDeadlines(now_);
    canary_.OnTick(now_);
  }

  Canary canary_{pool_, device_, now_};
};

TEST_F(CanaryTest, TriesAnIdleDevice) {
  EXPECT_EQ(canary_.next(), now_ + Canary::kInterval);
  Tick(Canary::kInterval - kTick);
  EXPECT_EQ(backend_.behaviour.starts, 0);
  for (int trial = 1; trial <= 3; ++trial) {
    Tick(canary_.next() - now_);
    EXPECT_EQ(backend_.behaviour.starts, trial);
    EXPECT_EQ(canary_.next(), now_ + Canary::kInterval);
    EXPECT_EQ(pool_.free(), pool_.size());
  }
  EXPECT_FALSE(lost());
}

// Zeros, for example, would hide that a device leaves something out.
TEST_F(CanaryTest, ItsNumbersTellWhatIsLeftOutOrAddedInAnotherOrder) {
  kernels::Slot* const slot = pool_.Take(holder_);
  const auto* const first = reinterpret_cast<const double*>(slot->staging().data());
  pool_.Return(slot);
  Tick(Canary::kInterval);
  const std::vector<double> numbers(first, first + 1024);
  EXPECT_TRUE(std::all_of(numbers.begin(), numbers.end(), [](double number) { return number > 0; }));
  EXPECT_NE(std::accumulate(numbers.begin(), numbers.end(), 0.0),
            std::accumulate(numbers.rbegin(), numbers.rend(), 0.0));
}

TEST(CanaryOfSeveralTest, TriesEachDevice) {
  FakeBackend backend(4, std::size_t{64} << 10, 2);
  DeviceHealth device(backend);
  SlotPool pool(SlotsOf(backend), &device);
  Canary canary(pool, device, absl::UnixEpoch());
  canary.OnTick(canary.next());
  EXPECT_EQ(backend.behaviour.starts, 2);
  EXPECT_TRUE(device.fault().ok());
  backend.behaviour.lost_device = 1;
  canary.OnTick(canary.next());
  EXPECT_EQ(kernels::ErrorReason(device.fault()), "DEVICE_LOST");
}

TEST_F(CanaryTest, LeavesABusyDeviceAlone) {
  kernels::Slot* const slot = pool_.Take(holder_);
  for (int i = 0; i < 10; ++i) Tick(Canary::kInterval);
  EXPECT_EQ(backend_.behaviour.starts, 0);
  pool_.Return(slot);
  Tick(Canary::kInterval - kTick);
  EXPECT_EQ(backend_.behaviour.starts, 0) << "it was used until now";
  Tick(kTick);
  EXPECT_EQ(backend_.behaviour.starts, 1);
}

TEST_F(CanaryTest, NoticesADeviceThatHangs) {
  backend_.behaviour.SetBlocked(true);
  Tick(Canary::kInterval);
  EXPECT_EQ(pool_.in_flight(), 1u);
  while (now_ < absl::UnixEpoch() + Canary::kInterval + DeadlineOf(0)) Tick(kTick);
  EXPECT_FALSE(lost()) << "the first call counts nothing";
  Tick(kTick);
  Tick(kTick);
  EXPECT_TRUE(lost());
  backend_.behaviour.FinishAll();
}

TEST_F(CanaryTest, NoticesADeviceThatRefuses) {
  backend_.behaviour.fail_start = true;
  Tick(Canary::kInterval);
  EXPECT_TRUE(lost());
}

TEST_F(CanaryTest, NoticesADeviceThatFails) {
  backend_.behaviour.fail_wait = true;
  Tick(Canary::kInterval);
  EXPECT_TRUE(lost());
}

TEST_F(CanaryTest, NoticesAnErrorThatIsReportedLate) {
  backend_.behaviour.SetBlocked(true);
  Tick(Canary::kInterval);
  backend_.behaviour.Finish(0, DeviceLost());
  EXPECT_FALSE(lost());
  Tick(kTick);
  EXPECT_TRUE(lost());
}

TEST_F(CanaryTest, NoticesAWrongResult) {
  backend_.behaviour.wrong_results = true;
  Tick(Canary::kInterval);
  EXPECT_TRUE(lost());
}

TEST_F(CanaryTest, EndsWithTheServer) {
  canary_.Retire();
  EXPECT_EQ(canary_.next(), absl::InfiniteFuture());
  Tick(absl::Hours(1));
  EXPECT_EQ(backend_.behaviour.starts, 0);
  // Also after the last calls.
  kernels::Slot* const slot = pool_.Take(holder_);
  Tick(kTick);
  pool_.Return(slot);
  Tick(absl::Hours(1));
  EXPECT_EQ(backend_.behaviour.starts, 0);
}

TEST_F(CanaryTest, TriesASingleSlotAndNone) {
  FakeBackend small(1);
  SlotPool one(SlotsOf(small), &device_);
  SlotPool none({}, &device_);
  Canary of_one(one, device_, now_);
  Canary of_none(none, device_, now_);
  of_one.OnTick(now_ + Canary::kInterval);
  of_none.OnTick(now_ + Canary::kInterval);
  EXPECT_EQ(small.behaviour.starts, 1);
  EXPECT_EQ(none.waiting(), 0u);
}

// A slot's memory holds remains of earlier work, also between the states that a trial writes there.
TEST(CanaryOfTheCpuTest, EarlierWorkDoesNotMatter) {
  const auto backend = kernels::cpu::MakeCpuBackend({.slots = 1, .threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  kernels::Slot& slot = *(*backend)->slots().front();
  kernels::ReductionSpec spec;
  spec.operators = {"describe"};
  spec.element_type = kernels::ElementType::kFloat64;
  const kernels::ReductionPlan reduction = kernels::ReductionPlan::Create(spec).value();
  const std::uint64_t count = slot.Capacity(reduction);
  auto* const numbers = reinterpret_cast<double*>(slot.staging().data());
  for (std::uint64_t i = 0; i < count; ++i) numbers[i] = -1.7e100 / static_cast<double>(i + 1);
  ASSERT_TRUE(slot.Start(reduction, 0, count).ok());
  ASSERT_TRUE(slot.Wait().ok());

  DeviceHealth device(**backend);
  SlotPool pool({&slot}, &device);
  Canary canary(pool, device, absl::UnixEpoch());
  canary.OnTick(absl::UnixEpoch() + Canary::kInterval);
  EXPECT_EQ(pool.free(), 1u);
  EXPECT_TRUE(device.fault().ok()) << device.fault();
}

}  // namespace
}  // namespace warpfold::server
