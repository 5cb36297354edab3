// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions on a device that takes its time: they wait without blocking, share its slots, and end properly
// when it fails.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "kernels/error.h"
#include "server/core/calls/reduce_session.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"
#include "tests/server/requests.h"

namespace warpfold::server {
namespace {

constexpr std::size_t kSlotElements = 16384;
using Need = ReduceSession::Need;

class SessionDeviceTest : public testing::Test {
 protected:
  SessionDeviceTest() : service_(backend_, Limits{.max_stream_bytes = 1 << 20}, [this] { return now_; }) {
    backend_.behaviour.SetBlocked(true);
  }
  ~SessionDeviceTest() override {
    backend_.behaviour.SetBlocked(false);
    pool_.Poll();
    EXPECT_EQ(pool_.free(), pool_.size());
    EXPECT_EQ(pool_.waiting(), 0u);
    EXPECT_EQ(backend_.behaviour.starts, backend_.behaviour.waits);
    EXPECT_EQ(backend_.behaviour.misuses, 0);
  }

  static Message Ones(std::size_t n) { return MessageOf(Chunk(std::vector<std::int32_t>(n, 1))); }
  static Message CommitOf(std::size_t n) { return MessageOf(Commit(n, n * 4)); }

  std::unique_ptr<SessionDriver> Begin() {
    auto driver = std::make_unique<SessionDriver>(service_, pool_);
    driver->OnMessage(MessageOf(Header({v1::OPERATOR_SUM})));
    EXPECT_EQ(driver->need(), Need::kMessage);
    return driver;
  }
  void Finish(std::size_t n, absl::Status status = absl::OkStatus()) {
    backend_.behaviour.Finish(n, std::move(status));
    pool_.Poll();
  }
  static void ExpectSum(const SessionDriver& driver, std::int64_t sum) {
    ASSERT_TRUE(driver.ended());
    ASSERT_TRUE(driver.result().ok()) << driver.result().status();
    EXPECT_EQ(driver.result()->results(0).int64_value(), sum);
  }
  static void ExpectLost(const SessionDriver& driver) {
    ASSERT_TRUE(driver.ended());
    EXPECT_EQ(kernels::ErrorReason(driver.result().status()), "DEVICE_LOST");
  }

  absl::Time now_ = absl::UnixEpoch();
  FakeBackend backend_;
  Service service_;
  SlotPool pool_{SlotsOf(backend_)};
};

TEST_F(SessionDeviceTest, AMessageWaitsUntilThereIsRoom) {
  const auto driver = Begin();
  Message message = Ones(3 * kSlotElements);
  const std::weak_ptr<const void> owner = message.owner;
  driver->OnMessage(std::move(message));
  EXPECT_EQ(driver->need(), Need::kDevice);
  EXPECT_EQ(pool_.in_flight(), 2u);
  EXPECT_FALSE(owner.expired()) << "a third of it is still needed";
  now_ += absl::Seconds(3);
  Finish(1);
  EXPECT_EQ(driver->need(), Need::kMessage);
  EXPECT_TRUE(owner.expired());
  driver->OnMessage(CommitOf(3 * kSlotElements));
  driver->OnEnd();
  EXPECT_EQ(driver->need(), Need::kDevice);
  Finish(1);
  EXPECT_FALSE(driver->ended());
  Finish(0);
  ExpectSum(*driver, 3 * kSlotElements);
  EXPECT_EQ(driver->result()->timings().queue_ns(), 3'000'000'000u);
}

TEST_F(SessionDeviceTest, SlotsFinishInAnyOrder) {
  for (const std::size_t first : {0, 1}) {
    auto driver = std::make_unique<SessionDriver>(service_, pool_);
    driver->OnMessage(MessageOf(Header({v1::OPERATOR_LAST, v1::OPERATOR_FIRST})));
    std::vector<std::int32_t> elements(2 * kSlotElements);
    std::iota(elements.begin(), elements.end(), 0);
    driver->OnMessage(MessageOf(Chunk(elements)));
    driver->OnMessage(CommitOf(elements.size()));
    driver->OnEnd();
    Finish(first);
    EXPECT_EQ(driver->need(), Need::kDevice);
    Finish(0);
    ASSERT_TRUE(driver->ended() && driver->result().ok());
    EXPECT_EQ(driver->result()->results(0).int64_value(), elements.back());
    EXPECT_EQ(driver->result()->results(1).int64_value(), 0);
  }
}

TEST_F(SessionDeviceTest, TheDeviceNeedNotWaitForTheEndOfTheStream) {
  const auto driver = Begin();
  driver->OnMessage(Ones(5000));
  EXPECT_EQ(pool_.in_flight(), 0u);
  driver->OnMessage(CommitOf(5000));
  EXPECT_EQ(pool_.in_flight(), 1u);
  Finish(0);
  EXPECT_FALSE(driver->ended()) << "more may come, which would be an error";
  driver->OnEnd();
  ExpectSum(*driver, 5000);
}

// The device fetches and reduces a few megabytes sooner than a notice of its end would wake the thread.
TEST_F(SessionDeviceTest, TheEndOfAChunksSlotIsLookedFor) {
  backend_.behaviour.ends_in_start = false;
  const auto driver = Begin();
  driver->OnMessage(Ones(5 * 1024));
  EXPECT_EQ(pool_.PollTime(), std::nullopt) << "nothing is started";
  driver->OnMessage(CommitOf(5 * 1024));
  EXPECT_EQ(pool_.PollTime(), PollForFetched(5 * 4096));
  driver->OnEnd();
  Finish(0);
  ExpectSum(*driver, 5 * 1024);
}

TEST_F(SessionDeviceTest, ASlowClientsSlotIsCalledIn) {
  const auto slow = Begin();
  slow->OnMessage(Ones(6000));
  EXPECT_EQ(pool_.free(), 1u);
  const auto quick = Begin();
  quick->OnMessage(Ones(2 * kSlotElements));
  EXPECT_EQ(quick->need(), Need::kDevice);
  EXPECT_EQ(backend_.behaviour.elements, kSlotElements + 5 * 1024) << "whole leaves of the slow one";
  Finish(1);
  EXPECT_EQ(quick->need(), Need::kMessage);
  slow->OnMessage(Ones(6000));
  EXPECT_EQ(slow->need(), Need::kDevice);
  backend_.behaviour.SetBlocked(false);
  pool_.Poll();
  for (SessionDriver* driver : {slow.get(), quick.get()}) {
    const std::size_t n = driver == slow.get() ? 12000 : 2 * kSlotElements;
    driver->OnMessage(CommitOf(n));
    driver->OnEnd();
    driver->AwaitDevice();
    ExpectSum(*driver, static_cast<std::int64_t>(n));
  }
}

TEST_F(SessionDeviceTest, WhileOthersWaitNobodyKeepsASlotForItsClient) {
  const auto first = Begin();
  first->OnMessage(Ones(2 * kSlotElements));
  const auto second = Begin();
  const auto third = Begin();
  second->OnMessage(Ones(2000));
  third->OnMessage(Ones(2000));
  EXPECT_EQ(pool_.waiting(), 2u);
  Finish(0);
  EXPECT_EQ(second->need(), Need::kMessage);
  EXPECT_EQ(third->need(), Need::kDevice);
  EXPECT_EQ(pool_.in_flight(), 2u) << "the second has started what it has";
  Finish(0);
  EXPECT_EQ(third->need(), Need::kMessage);
  EXPECT_EQ(pool_.in_flight(), 1u) << "nobody waits: the third may keep its slot";
}

TEST_F(SessionDeviceTest, AFailureIsAnsweredWhateverTheSessionWaitsFor) {
  const auto with_room = Begin();
  with_room->OnMessage(Ones(kSlotElements));
  EXPECT_EQ(with_room->need(), Need::kMessage);
  Finish(0, DeviceLost());
  ExpectLost(*with_room);

  const auto without_room = Begin();
  without_room->OnMessage(Ones(3 * kSlotElements));
  Finish(1, DeviceLost());
  ExpectLost(*without_room);
  backend_.behaviour.FinishAll();
  pool_.Poll();

  const auto committed = Begin();
  committed->OnMessage(Ones(kSlotElements));
  committed->OnMessage(CommitOf(kSlotElements));
  Finish(0, DeviceLost());
  ExpectLost(*committed);

  const auto ended = Begin();
  ended->OnMessage(Ones(kSlotElements));
  ended->OnMessage(CommitOf(kSlotElements));
  ended->OnEnd();
  Finish(0, DeviceLost());
  ExpectLost(*ended);
}

// The watchdog gives the device a second for each megabyte of each operator.
TEST_F(SessionDeviceTest, TheDeviceHasTimeByTheBytesOfAllOperators) {
  DeviceHealth health(backend_);
  SlotPool pool(SlotsOf(backend_), &health);
  SessionDriver driver(service_, pool);
  driver.OnMessage(MessageOf(Header({v1::OPERATOR_SUM, v1::OPERATOR_MAX})));
  driver.OnMessage(Ones(kSlotElements));
  ASSERT_EQ(pool.in_flight(), 1u);
  EXPECT_EQ(health.Begin(0), kSlotElements * 4 * 2);
  backend_.behaviour.SetBlocked(false);
  pool.Poll();
  EXPECT_EQ(health.Begin(0), 0u);
}

TEST_F(SessionDeviceTest, AFailureIsNotForgottenWhenAnotherSlotSucceeds) {
  const auto driver = Begin();
  driver->OnMessage(Ones(2 * kSlotElements));
  backend_.behaviour.Finish(0, DeviceLost());
  backend_.behaviour.Finish(0);
  pool_.Poll();
  ExpectLost(*driver);
}

TEST_F(SessionDeviceTest, ALoanThatCannotBeStartedIsAFailureOfItsHolder) {
  const auto slow = Begin();
  slow->OnMessage(Ones(2000));
  const auto other = Begin();
  other->OnMessage(Ones(kSlotElements));
  backend_.behaviour.fail_start = true;
  RevokeLoans(pool_);
  ExpectLost(*slow);
  EXPECT_EQ(pool_.free(), 1u);
  EXPECT_FALSE(other->ended());
}

TEST_F(SessionDeviceTest, ADeviceThatFailsLeavesTheSlotsWhole) {
  backend_.behaviour.SetBlocked(false);
  const std::vector<Message> messages = {MessageOf(Header({v1::OPERATOR_SUM})), Ones(100000),
                                         CommitOf(100000)};
  backend_.behaviour.fail_start = true;
  EXPECT_EQ(DriveSession(service_, pool_, messages).status(), DeviceLost());
  backend_.behaviour.fail_start = false;
  backend_.behaviour.fail_wait = true;
  EXPECT_EQ(DriveSession(service_, pool_, messages).status(), DeviceLost());
  EXPECT_EQ(pool_.free(), pool_.size());
  backend_.behaviour.fail_wait = false;
  EXPECT_TRUE(DriveSession(service_, pool_, messages).ok());
}

TEST_F(SessionDeviceTest, OneThatIsReleasedGivesBackWhatItHolds) {
  auto waiting = Begin();
  Message message = Ones(3 * kSlotElements);
  const std::weak_ptr<const void> owner = message.owner;
  waiting->OnMessage(std::move(message));
  waiting->session().Release();
  EXPECT_TRUE(owner.expired());
  EXPECT_EQ(pool_.waiting(), 0u);
  EXPECT_EQ(pool_.in_flight(), 2u) << "the device is not waited for";
  waiting.reset();
  backend_.behaviour.FinishAll();
  pool_.Poll();
  auto fill = Begin();
  fill->OnMessage(Ones(2000));
  EXPECT_EQ(pool_.free(), 1u);
  fill->session().Release();
  EXPECT_EQ(pool_.free(), 2u);
}

TEST_F(SessionDeviceTest, OneMessageArraysWaitToo) {
  v1::ReduceArrayRequest request;
  *request.mutable_spec() = Header({v1::OPERATOR_SUM}).header().spec();
  const std::vector<std::int32_t> elements(3 * kSlotElements, 1);
  request.set_data(elements.data(), elements.size() * 4);
  PlanCache plans;
  SessionDriver driver(service_, pool_);
  driver.OnArray(MessageOf(request), plans);
  EXPECT_EQ(driver.need(), Need::kDevice);
  while (!driver.ended()) Finish(0);
  ExpectSum(driver, 3 * kSlotElements);
}

// More sessions than slots, each with more data than one slot holds: all finish, whatever the order.
TEST_F(SessionDeviceTest, ManySessionsShareFewSlots) {
  std::vector<std::unique_ptr<SessionDriver>> drivers;
  for (std::size_t i = 0; i < 6; ++i) {
    drivers.push_back(Begin());
    drivers.back()->OnMessage(Ones(60000 + i));
  }
  EXPECT_EQ(pool_.waiting(), 6u);
  for (std::size_t finished = 0; finished < 1000; ++finished) {
    for (std::size_t i = 0; i < 6; ++i) {
      SessionDriver& driver = *drivers[i];
      if (driver.ended() || driver.need() == Need::kDevice) continue;
      driver.OnMessage(CommitOf(60000 + i));
      driver.OnEnd();
    }
    Finish(finished % 2);
    Finish(0);
  }
  for (std::size_t i = 0; i < 6; ++i) ExpectSum(*drivers[i], static_cast<std::int64_t>(60000 + i));
}

}  // namespace
}  // namespace warpfold::server
