// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// These tests follow slots that were given out: loans, the work of the device, its end and the notice of
// that.
#include <gtest/gtest.h>

#include <memory>

#include "server/core/slots/slot_pool.h"
#include "tests/server/core/slots/slot_pool_fixture.h"

namespace warpfold::server {
namespace {

TEST_F(OneSlotTest, ALoanIsCalledInAndStarted) {
  CountingHolder slow;
  CountingHolder other;
  kernels::Slot* const lent = pool_.Take(slow);
  pool_.SetAwaitingClient(lent, true);
  slow.on_wanted = [&] { EXPECT_TRUE(Start(slow, lent).ok()); };
  backend_.behaviour.SetBlocked(true);
  EXPECT_EQ(pool_.Take(other), nullptr) << "the device has it";
  EXPECT_EQ(slow.wanted, 1);
  EXPECT_EQ(pool_.in_flight(), 1u);
  other.on_free = [&] { EXPECT_EQ(pool_.Take(other), lent); };
  backend_.behaviour.SetBlocked(false);
  pool_.Poll();
  EXPECT_EQ(slow.finished.size(), 1u);
  EXPECT_EQ(other.frees, 1);
  pool_.Return(lent);
}

TEST_F(OneSlotTest, ALoanThatEndsAtOnceServesAtOnce) {
  CountingHolder slow;
  CountingHolder other;
  kernels::Slot* const lent = pool_.Take(slow);
  pool_.SetAwaitingClient(lent, true);
  slow.on_wanted = [&] { pool_.Return(lent); };
  EXPECT_EQ(pool_.Take(other), lent);
  EXPECT_EQ(other.frees, 0);
  EXPECT_EQ(pool_.waiting(), 0u);
  // It belongs to the other now, and is not a loan.
  EXPECT_EQ(pool_.Take(slow), nullptr);
  EXPECT_EQ(other.wanted, 0);
  pool_.Leave(slow);
  pool_.Return(lent);
}

TEST_F(OneSlotTest, OnlyLoansAreCalledIn) {
  CountingHolder busy;
  CountingHolder other;
  kernels::Slot* const slot = pool_.Take(busy);
  EXPECT_EQ(pool_.Take(other), nullptr);
  pool_.Leave(other);
  pool_.SetAwaitingClient(slot, true);
  pool_.SetAwaitingClient(slot, false);
  EXPECT_EQ(pool_.Take(other), nullptr);
  EXPECT_EQ(busy.wanted, 0);
  pool_.Leave(other);
  pool_.Return(slot);
}

TEST_F(SlotPoolTest, AFreeSlotIsGivenBeforeALoan) {
  CountingHolder slow;
  CountingHolder other;
  kernels::Slot* const lent = pool_.Take(slow);
  pool_.SetAwaitingClient(lent, true);
  kernels::Slot* const slot = pool_.Take(other);
  EXPECT_NE(slot, nullptr);
  EXPECT_NE(slot, lent);
  EXPECT_EQ(slow.wanted, 0);
}

// Asking a GPU right after the start costs a call, and returns what is known already.
TEST_F(SlotPoolTest, ADeviceThatDoesNotEndInStartIsAskedLater) {
  CountingHolder holder;
  backend_.behaviour.ends_in_start = false;
  kernels::Slot* const slot = pool_.Take(holder);
  ASSERT_TRUE(Start(holder, slot).ok());
  EXPECT_FALSE(pool_.CollectAtOnce(slot).has_value());
  pool_.Poll();
  EXPECT_EQ(holder.finished.size(), 1u);
}

TEST_F(SlotPoolTest, FinishedSlotsAreReportedOnce) {
  CountingHolder holder;
  kernels::Slot* const first = Occupy(holder);
  kernels::Slot* const second = Occupy(holder);
  pool_.Poll();
  EXPECT_TRUE(holder.finished.empty());
  backend_.behaviour.Finish(1, DeviceLost());
  pool_.Poll();
  ASSERT_EQ(holder.finished.size(), 1u);
  EXPECT_EQ(holder.finished[0].first, second);
  EXPECT_EQ(holder.finished[0].second, DeviceLost());
  EXPECT_FALSE(pool_.CollectAtOnce(first).has_value());
  backend_.behaviour.FinishAll();
  const auto result = pool_.CollectAtOnce(first);
  ASSERT_TRUE(result.has_value() && result->ok());
  EXPECT_EQ((*result)->state->element_count(), 1024u);
  pool_.Poll();
  EXPECT_EQ(holder.finished.size(), 1u) << "the other was collected";
  EXPECT_EQ(pool_.free(), 2u);
}

TEST_F(SlotPoolTest, WhatIsInFlightOutlivesItsHolder) {
  auto holder = std::make_unique<CountingHolder>();
  Occupy(*holder);
  pool_.Leave(*holder);
  holder.reset();
  pool_.Poll();
  EXPECT_EQ(pool_.in_flight(), 1u);
  backend_.behaviour.FinishAll();
  pool_.Poll();
  EXPECT_EQ(pool_.free(), 2u);
  EXPECT_EQ(backend_.behaviour.waits, 1);
}

TEST_F(OneSlotTest, WhoLeavesWaitsNoMore) {
  CountingHolder busy;
  Occupy(busy);
  CountingHolder gone;
  CountingHolder next;
  EXPECT_EQ(pool_.Take(gone), nullptr);
  EXPECT_EQ(pool_.Take(next), nullptr);
  pool_.Leave(gone);
  EXPECT_EQ(pool_.waiting(), 1u);
  backend_.behaviour.FinishAll();
  pool_.Poll();
  EXPECT_EQ(gone.frees, 0);
  EXPECT_EQ(next.frees, 1);
}

TEST_F(OneSlotTest, AStartThatFailsGivesTheSlotBack) {
  CountingHolder holder;
  CountingHolder next;
  kernels::Slot* const slot = pool_.Take(holder);
  EXPECT_EQ(pool_.Take(next), nullptr);
  backend_.behaviour.fail_start = true;
  EXPECT_EQ(Start(holder, slot), DeviceLost());
  EXPECT_EQ(pool_.free(), 1u);
  next.on_free = [&] { pool_.Return(pool_.Take(next)); };
  pool_.Serve();
  EXPECT_EQ(next.frees, 1);
  pool_.Poll();
  EXPECT_TRUE(holder.finished.empty());
  EXPECT_EQ(pool_.free(), 1u);
}

// A notice costs the device and the shard some microseconds: they are given only if somebody waits for them.
TEST_F(SlotPoolTest, NoticesAreAskedForOnlyWhereSomebodyWaits) {
  for (const auto& slot : backend_.slots()) slot->NotifyBy([] {});
  backend_.behaviour.SetBlocked(true);
  CountingHolder holder;
  EXPECT_TRUE(Start(holder, pool_.Take(holder)).ok());
  pool_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 0) << "its client still sends";
  pool_.AwaitFinish(holder);
  pool_.AskForNotices();
  pool_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 1) << "once for each Start";

  CountingHolder other;
  EXPECT_TRUE(Start(other, pool_.Take(other)).ok());
  pool_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 1);
  CountingHolder waiter;
  EXPECT_EQ(pool_.Take(waiter), nullptr);
  pool_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 2) << "any slot that gets free serves who waits";
  backend_.behaviour.FinishAll();
  pool_.Leave(waiter);
  pool_.Poll();
}

TEST_F(SlotPoolTest, PollsForTheEndOfShortWorkUntilItIsToldOf) {
  for (const auto& slot : backend_.slots()) slot->NotifyBy([] {});
  backend_.behaviour.SetBlocked(true);
  CountingHolder holder;
  kernels::Slot* const slot = pool_.Take(holder);
  EXPECT_TRUE(pool_
                  .Started(holder, slot, slot->Start(SumOfInts(), 0, 1024),
                           {.memory = nullptr, .poll = absl::Seconds(1)})
                  .ok());
  EXPECT_EQ(pool_.PollTime(), std::nullopt) << "nobody waits for it";
  pool_.AwaitFinish(holder);
  EXPECT_EQ(pool_.PollTime(), absl::Seconds(1));
  pool_.AskForNotices();
  EXPECT_EQ(pool_.PollTime(), std::nullopt);
  backend_.behaviour.FinishAll();
  pool_.Poll();
}

}  // namespace
}  // namespace warpfold::server
