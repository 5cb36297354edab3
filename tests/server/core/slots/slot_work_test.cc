// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// These tests follow slots that were given out: loans, the work of the device, its end and the notice of it.
#include <gtest/gtest.h>

#include <memory>

#include "server/core/slots/slot_share.h"
#include "tests/server/core/slots/slot_share_fixture.h"

namespace warpfold::server {
namespace {

TEST_F(OneSlotTest, ALoanIsCalledInAndStarted) {
  CountingHolder slow;
  CountingHolder other;
  kernels::Slot* const lent = share_.Take(slow);
  share_.SetAwaitingClient(lent, true);
  slow.on_wanted = [&] { EXPECT_TRUE(Start(slow, lent).ok()); };
  backend_.behaviour.SetBlocked(true);
  EXPECT_EQ(share_.Take(other), nullptr) << "the device has it";
  EXPECT_EQ(slow.wanted, 1);
  EXPECT_EQ(share_.in_flight(), 1u);
  other.on_free = [&] { EXPECT_EQ(share_.Take(other), lent); };
  backend_.behaviour.SetBlocked(false);
  share_.Poll();
  EXPECT_EQ(slow.finished.size(), 1u);
  EXPECT_EQ(other.frees, 1);
  share_.Return(lent);
}

TEST_F(OneSlotTest, ALoanThatEndsAtOnceServesAtOnce) {
  CountingHolder slow;
  CountingHolder other;
  kernels::Slot* const lent = share_.Take(slow);
  share_.SetAwaitingClient(lent, true);
  slow.on_wanted = [&] { share_.Return(lent); };
  EXPECT_EQ(share_.Take(other), lent);
  EXPECT_EQ(other.frees, 0);
  EXPECT_EQ(share_.waiting(), 0u);
  // It is the other's now, and no loan.
  EXPECT_EQ(share_.Take(slow), nullptr);
  EXPECT_EQ(other.wanted, 0);
  share_.Leave(slow);
  share_.Return(lent);
}

TEST_F(OneSlotTest, OnlyLoansAreCalledIn) {
  CountingHolder busy;
  CountingHolder other;
  kernels::Slot* const slot = share_.Take(busy);
  EXPECT_EQ(share_.Take(other), nullptr);
  share_.Leave(other);
  share_.SetAwaitingClient(slot, true);
  share_.SetAwaitingClient(slot, false);
  EXPECT_EQ(share_.Take(other), nullptr);
  EXPECT_EQ(busy.wanted, 0);
  share_.Leave(other);
  share_.Return(slot);
}

TEST_F(SlotShareTest, AFreeSlotIsGivenBeforeALoan) {
  CountingHolder slow;
  CountingHolder other;
  kernels::Slot* const lent = share_.Take(slow);
  share_.SetAwaitingClient(lent, true);
  kernels::Slot* const slot = share_.Take(other);
  EXPECT_NE(slot, nullptr);
  EXPECT_NE(slot, lent);
  EXPECT_EQ(slow.wanted, 0);
}

// To ask a GPU right after the start costs a call, and says what is known.
TEST_F(SlotShareTest, ADeviceThatDoesNotEndInStartIsAskedLater) {
  CountingHolder holder;
  backend_.behaviour.ends_in_start = false;
  kernels::Slot* const slot = share_.Take(holder);
  ASSERT_TRUE(Start(holder, slot).ok());
  EXPECT_FALSE(share_.CollectAtOnce(slot).has_value());
  share_.Poll();
  EXPECT_EQ(holder.finished.size(), 1u);
}

TEST_F(SlotShareTest, FinishedSlotsAreReportedOnce) {
  CountingHolder holder;
  kernels::Slot* const first = Occupy(holder);
  kernels::Slot* const second = Occupy(holder);
  share_.Poll();
  EXPECT_TRUE(holder.finished.empty());
  backend_.behaviour.Finish(1, DeviceLost());
  share_.Poll();
  ASSERT_EQ(holder.finished.size(), 1u);
  EXPECT_EQ(holder.finished[0].first, second);
  EXPECT_EQ(holder.finished[0].second, DeviceLost());
  EXPECT_FALSE(share_.CollectAtOnce(first).has_value());
  backend_.behaviour.FinishAll();
  const auto result = share_.CollectAtOnce(first);
  ASSERT_TRUE(result.has_value() && result->ok());
  EXPECT_EQ((*result)->state->element_count(), 1024u);
  share_.Poll();
  EXPECT_EQ(holder.finished.size(), 1u) << "the other was collected";
  EXPECT_EQ(share_.free(), 2u);
}

TEST_F(SlotShareTest, WhatIsInFlightOutlivesItsHolder) {
  auto holder = std::make_unique<CountingHolder>();
  Occupy(*holder);
  share_.Leave(*holder);
  holder.reset();
  share_.Poll();
  EXPECT_EQ(share_.in_flight(), 1u);
  backend_.behaviour.FinishAll();
  share_.Poll();
  EXPECT_EQ(share_.free(), 2u);
  EXPECT_EQ(backend_.behaviour.waits, 1);
}

TEST_F(OneSlotTest, WhoLeavesWaitsNoMore) {
  CountingHolder busy;
  Occupy(busy);
  CountingHolder gone;
  CountingHolder next;
  EXPECT_EQ(share_.Take(gone), nullptr);
  EXPECT_EQ(share_.Take(next), nullptr);
  share_.Leave(gone);
  EXPECT_EQ(share_.waiting(), 1u);
  backend_.behaviour.FinishAll();
  share_.Poll();
  EXPECT_EQ(gone.frees, 0);
  EXPECT_EQ(next.frees, 1);
}

TEST_F(OneSlotTest, AStartThatFailsGivesTheSlotBack) {
  CountingHolder holder;
  CountingHolder next;
  kernels::Slot* const slot = share_.Take(holder);
  EXPECT_EQ(share_.Take(next), nullptr);
  backend_.behaviour.fail_start = true;
  EXPECT_EQ(Start(holder, slot), DeviceLost());
  EXPECT_EQ(share_.free(), 1u);
  next.on_free = [&] { share_.Return(share_.Take(next)); };
  share_.Serve();
  EXPECT_EQ(next.frees, 1);
  share_.Poll();
  EXPECT_TRUE(holder.finished.empty());
  EXPECT_EQ(share_.free(), 1u);
}

// Telling costs the device and the shard some microseconds: only what somebody waits for is told of.
TEST_F(SlotShareTest, NoticesAreAskedForOnlyWhereSomebodyWaits) {
  for (const auto& slot : backend_.slots()) slot->NotifyBy([] {});
  backend_.behaviour.SetBlocked(true);
  CountingHolder holder;
  EXPECT_TRUE(Start(holder, share_.Take(holder)).ok());
  share_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 0) << "its client still sends";
  share_.AwaitFinish(holder);
  share_.AskForNotices();
  share_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 1) << "once for each Start";

  CountingHolder other;
  EXPECT_TRUE(Start(other, share_.Take(other)).ok());
  share_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 1);
  CountingHolder waiter;
  EXPECT_EQ(share_.Take(waiter), nullptr);
  share_.AskForNotices();
  EXPECT_EQ(backend_.behaviour.notices, 2) << "any slot that gets free serves who waits";
  backend_.behaviour.FinishAll();
  share_.Leave(waiter);
  share_.Poll();
}

TEST_F(SlotShareTest, PollsForTheEndOfShortWorkUntilItIsToldOf) {
  for (const auto& slot : backend_.slots()) slot->NotifyBy([] {});
  backend_.behaviour.SetBlocked(true);
  CountingHolder holder;
  kernels::Slot* const slot = share_.Take(holder);
  EXPECT_TRUE(share_
                  .Started(holder, slot, slot->Start(SumOfInts(), 0, 1024),
                           {.memory = nullptr, .poll = absl::Seconds(1)})
                  .ok());
  EXPECT_EQ(share_.PollTime(), std::nullopt) << "nobody waits for it";
  share_.AwaitFinish(holder);
  EXPECT_EQ(share_.PollTime(), absl::Seconds(1));
  share_.AskForNotices();
  EXPECT_EQ(share_.PollTime(), std::nullopt);
  backend_.behaviour.FinishAll();
  share_.Poll();
}

}  // namespace
}  // namespace warpfold::server
