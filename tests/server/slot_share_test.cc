// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/slot_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

kernels::ReductionPlan SumOfInts() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kInt32;
  return kernels::ReductionPlan::Create(spec).value();
}

class SlotShareTest : public testing::Test {
 protected:
  explicit SlotShareTest(int slots = 2) : backend_(slots), share_(SlotsOf(backend_)) {}

  absl::Status Start(CountingHolder& holder, kernels::Slot* slot) {
    return share_.Started(holder, slot, slot->Start(SumOfInts(), 0, 1024));
  }
  // Takes a slot and starts it on a device that does not finish.
  kernels::Slot* Occupy(CountingHolder& holder) {
    backend_.behaviour.SetBlocked(true);
    kernels::Slot* const slot = share_.Take(holder);
    EXPECT_NE(slot, nullptr);
    EXPECT_TRUE(Start(holder, slot).ok());
    return slot;
  }

  FakeBackend backend_;
  SlotShare share_;
};

class OneSlotTest : public SlotShareTest {
 protected:
  OneSlotTest() : SlotShareTest(1) {}
};

TEST_F(SlotShareTest, LendsEachSlotOnceAndTakesItBack) {
  CountingHolder holder;
  kernels::Slot* const first = share_.Take(holder);
  kernels::Slot* const second = share_.Take(holder);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(share_.Take(holder), nullptr);
  EXPECT_EQ(share_.waiting(), 1u);
  EXPECT_EQ(share_.Take(holder), nullptr);
  EXPECT_EQ(share_.waiting(), 1u) << "it waits already";
  share_.Return(first);
  share_.Return(second);
  share_.Leave(holder);
  EXPECT_EQ(share_.waiting(), 0u);
  EXPECT_EQ(share_.free(), 2u);
}

TEST_F(OneSlotTest, ServesInTheOrderOfAsking) {
  CountingHolder busy;
  Occupy(busy);
  std::vector<CountingHolder> holders(8);
  std::vector<int> order;
  for (int i = 0; i < 8; ++i) {
    holders[i].on_free = [&, i] {
      order.push_back(i);
      ASSERT_NE(share_.Take(holders[i]), nullptr);
    };
    EXPECT_EQ(share_.Take(holders[i]), nullptr);
  }
  share_.Serve();
  EXPECT_TRUE(order.empty()) << "nothing is free";
  backend_.behaviour.FinishAll();
  for (int served = 1; served <= 8; ++served) {
    share_.Poll();
    ASSERT_EQ(order.size(), static_cast<std::size_t>(served)) << "one slot serves one";
    share_.Return(backend_.slots()[0].get());
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(busy.finished.size(), 1u);
  EXPECT_EQ(share_.free(), 1u);
}

// Where the thread itself works for whom it serves, what has come meanwhile may be more urgent than the next
// one.
TEST_F(SlotShareTest, ServesOneAtATimeWhereTheThreadWorksForIt) {
  for (const bool works : {true, false}) {
    backend_.behaviour.ends_in_start = works;
    CountingHolder busy;
    for (int slot = 0; slot < 2; ++slot) Occupy(busy);
    std::deque<CountingHolder> holders(4);
    int served = 0;
    for (CountingHolder& holder : holders) {
      holder.on_free = [&] {
        ++served;
        EXPECT_TRUE(Start(holder, share_.Take(holder)).ok());
      };
      EXPECT_EQ(share_.Take(holder), nullptr);
    }
    backend_.behaviour.FinishAll();
    share_.Poll();
    EXPECT_EQ(served, works ? 1 : 2);
    EXPECT_EQ(share_.can_serve(), works);
    backend_.behaviour.SetBlocked(false);
    while (share_.waiting() > 0) share_.Poll();
    EXPECT_EQ(served, 4);
    EXPECT_FALSE(share_.can_serve());
    share_.Poll();
    ASSERT_EQ(share_.free(), 2u);
  }
}

// One party has many calls, another two: the slots go to them in turns.
TEST_F(OneSlotTest, PartiesTakeTurns) {
  CountingHolder busy;
  Occupy(busy);
  std::vector<int> order;
  std::deque<CountingHolder> holders;
  for (int i = 0; i < 8; ++i) {
    holders.emplace_back(i < 6 ? "greedy" : "modest");
    CountingHolder& holder = holders.back();
    holder.on_free = [&, i] {
      order.push_back(i);
      ASSERT_NE(share_.Take(holder), nullptr);
    };
    EXPECT_EQ(share_.Take(holder), nullptr);
  }
  backend_.behaviour.FinishAll();
  for (int served = 0; served < 8; ++served) {
    share_.Poll();
    share_.Return(backend_.slots()[0].get());
  }
  EXPECT_EQ(order, (std::vector<int>{0, 6, 1, 7, 2, 3, 4, 5}));
}

// By their slots' groups a backend tells parties apart that queue for its threads, of whatever shard.
TEST_F(SlotShareTest, ASlotWorksForThePartyThatHasIt) {
  FakeBackend others(2);
  SlotShare other_share(SlotsOf(others));
  CountingHolder greedy("greedy");
  CountingHolder modest("modest");
  const auto group_of = [](SlotShare& share, CountingHolder& holder) {
    kernels::Slot* const slot = share.Take(holder);
    const std::uint64_t group = static_cast<FakeSlot*>(slot)->group();
    share.Return(slot);
    return group;
  };
  const std::uint64_t greedy_group = group_of(share_, greedy);
  EXPECT_NE(greedy_group, group_of(share_, modest));
  EXPECT_EQ(greedy_group, group_of(share_, greedy));
  EXPECT_EQ(greedy_group, group_of(other_share, greedy));
}

// A free slot is for the party that has the fewest, whoever asked first.
TEST_F(SlotShareTest, WhoHasFewerSlotsIsServedFirst) {
  CountingHolder greedy("greedy");
  CountingHolder modest("modest");
  kernels::Slot* const first = share_.Take(greedy);
  kernels::Slot* const second = share_.Take(greedy);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(share_.Take(greedy), nullptr);
  EXPECT_EQ(share_.Take(modest), nullptr);
  kernels::Slot* taken = nullptr;
  modest.on_free = [&] { taken = share_.Take(modest); };
  share_.Return(first);
  share_.Serve();
  EXPECT_EQ(taken, first);
  EXPECT_EQ(greedy.frees, 0);
  // Each has one now, and greedy was served longer ago.
  EXPECT_EQ(share_.Take(modest), nullptr);
  share_.Return(second);
  share_.Serve();
  EXPECT_EQ(greedy.frees, 1);
  share_.Leave(greedy);
  share_.Leave(modest);
  EXPECT_EQ(share_.waiting(), 0u);
}

// A party that does not take what it is offered does not keep others from it.
TEST_F(OneSlotTest, WhoDoesNotTakeItsTurnHasHadIt) {
  CountingHolder busy("busy");
  kernels::Slot* const slot = share_.Take(busy);
  CountingHolder absent("absent");
  CountingHolder present("present");
  EXPECT_EQ(share_.Take(absent), nullptr);
  EXPECT_EQ(share_.Take(present), nullptr);
  share_.Return(slot);
  share_.Serve();
  EXPECT_EQ(absent.frees, 1);
  EXPECT_EQ(present.frees, 1);
  EXPECT_EQ(share_.waiting(), 0u);
}

// The greedy one asks again in the same breath, the patient one only when it is told.
TEST_F(OneSlotTest, WhoTakesAgainAndAgainStarvesNobody) {
  CountingHolder greedy;
  CountingHolder patient;
  int taken_by_greedy = 0;
  int taken_by_patient = 0;
  greedy.on_free = [&] {
    while (kernels::Slot* const slot = share_.Take(greedy)) {
      ASSERT_LT(++taken_by_greedy, 1000) << "it never queues";
      share_.Return(slot);
    }
  };
  patient.on_free = [&] {
    kernels::Slot* const slot = share_.Take(patient);
    ASSERT_NE(slot, nullptr);
    ++taken_by_patient;
    share_.Return(slot);
    if (taken_by_patient < 50) {
      EXPECT_EQ(share_.Take(patient), nullptr);
    } else {
      share_.Leave(greedy);
    }
  };
  CountingHolder busy;
  Occupy(busy);
  EXPECT_EQ(share_.Take(greedy), nullptr);
  EXPECT_EQ(share_.Take(patient), nullptr);
  backend_.behaviour.FinishAll();
  share_.Poll();
  EXPECT_EQ(taken_by_patient, 50);
  EXPECT_EQ(taken_by_greedy, 50) << "they take turns";
  EXPECT_EQ(share_.free(), 1u);
}

TEST_F(OneSlotTest, ATurnIsForOneTake) {
  CountingHolder busy;
  Occupy(busy);
  CountingHolder first;
  CountingHolder second;
  kernels::Slot* again = nullptr;
  first.on_free = [&] {
    share_.Return(share_.Take(first));
    again = share_.Take(first);
  };
  second.on_free = [&] { EXPECT_NE(share_.Take(second), nullptr); };
  EXPECT_EQ(share_.Take(first), nullptr);
  EXPECT_EQ(share_.Take(second), nullptr);
  backend_.behaviour.FinishAll();
  share_.Poll();
  EXPECT_EQ(again, nullptr);
  EXPECT_EQ(second.frees, 1);
  EXPECT_EQ(share_.waiting(), 1u);
  share_.Leave(first);
  share_.Return(backend_.slots()[0].get());
}

// A turn that is not used must not be used later, when somebody else's has come.
TEST_F(OneSlotTest, ATurnEndsWithItsEvent) {
  CountingHolder busy;
  Occupy(busy);
  CountingHolder lazy;
  CountingHolder other;
  EXPECT_EQ(share_.Take(lazy), nullptr);
  backend_.behaviour.FinishAll();
  share_.Poll();
  EXPECT_EQ(lazy.frees, 1);
  Occupy(busy);
  EXPECT_EQ(share_.Take(other), nullptr);
  backend_.behaviour.FinishAll();
  EXPECT_TRUE(share_.CollectAtOnce(backend_.slots()[0].get()).has_value());
  EXPECT_EQ(share_.Take(lazy), nullptr) << "the other came first";
  share_.Leave(lazy);
  share_.Leave(other);
}

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

TEST_F(SlotShareTest, LooksForTheEndOfShortWorkUntilItIsToldOf) {
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
