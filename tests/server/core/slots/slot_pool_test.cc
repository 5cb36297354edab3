// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who gets a slot: turns of calls and of parties.
#include "server/core/slots/slot_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/server/core/slots/slot_pool_fixture.h"

namespace warpfold::server {
namespace {

TEST_F(SlotPoolTest, LendsEachSlotOnceAndTakesItBack) {
  CountingHolder holder;
  kernels::Slot* const first = pool_.Take(holder);
  kernels::Slot* const second = pool_.Take(holder);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(pool_.Take(holder), nullptr);
  EXPECT_EQ(pool_.waiting(), 1u);
  EXPECT_EQ(pool_.Take(holder), nullptr);
  EXPECT_EQ(pool_.waiting(), 1u) << "it waits already";
  pool_.Return(first);
  pool_.Return(second);
  pool_.Leave(holder);
  EXPECT_EQ(pool_.waiting(), 0u);
  EXPECT_EQ(pool_.free(), 2u);
}

TEST_F(OneSlotTest, ServesInTheOrderOfAsking) {
  CountingHolder busy;
  Occupy(busy);
  std::vector<CountingHolder> holders(8);
  std::vector<int> order;
  for (int i = 0; i < 8; ++i) {
    holders[i].on_free = [&, i] {
      order.push_back(i);
      ASSERT_NE(pool_.Take(holders[i]), nullptr);
    };
    EXPECT_EQ(pool_.Take(holders[i]), nullptr);
  }
  pool_.Serve();
  EXPECT_TRUE(order.empty()) << "nothing is free";
  backend_.behaviour.FinishAll();
  for (int served = 1; served <= 8; ++served) {
    pool_.Poll();
    ASSERT_EQ(order.size(), static_cast<std::size_t>(served)) << "one slot serves one";
    pool_.Return(backend_.slots()[0].get());
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(busy.finished.size(), 1u);
  EXPECT_EQ(pool_.free(), 1u);
}

// If the thread itself works for whomever it serves, messages that have come meanwhile may be more urgent
// than the next holder.
TEST_F(SlotPoolTest, ServesOneAtATimeWhereTheThreadWorksForIt) {
  for (const bool works : {true, false}) {
    backend_.behaviour.ends_in_start = works;
    CountingHolder busy;
    for (int slot = 0; slot < 2; ++slot) Occupy(busy);
    std::deque<CountingHolder> holders(4);
    int served = 0;
    for (CountingHolder& holder : holders) {
      holder.on_free = [&] {
        ++served;
        EXPECT_TRUE(Start(holder, pool_.Take(holder)).ok());
      };
      EXPECT_EQ(pool_.Take(holder), nullptr);
    }
    backend_.behaviour.FinishAll();
    pool_.Poll();
    EXPECT_EQ(served, works ? 1 : 2);
    EXPECT_EQ(pool_.can_serve(), works);
    backend_.behaviour.SetBlocked(false);
    while (pool_.waiting() > 0) pool_.Poll();
    EXPECT_EQ(served, 4);
    EXPECT_FALSE(pool_.can_serve());
    pool_.Poll();
    ASSERT_EQ(pool_.free(), 2u);
  }
}

// One party has many calls, another has two: the slots go to the parties in turns.
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
      ASSERT_NE(pool_.Take(holder), nullptr);
    };
    EXPECT_EQ(pool_.Take(holder), nullptr);
  }
  backend_.behaviour.FinishAll();
  for (int served = 0; served < 8; ++served) {
    pool_.Poll();
    pool_.Return(backend_.slots()[0].get());
  }
  EXPECT_EQ(order, (std::vector<int>{0, 6, 1, 7, 2, 3, 4, 5}));
}

// By the groups of slots, a backend distinguishes parties that queue for its threads, on whatever shard.
TEST_F(SlotPoolTest, ASlotWorksForThePartyThatHasIt) {
  FakeBackend others(2);
  SlotPool other_share(SlotsOf(others));
  CountingHolder greedy("greedy");
  CountingHolder modest("modest");
  const auto group_of = [](SlotPool& pool, CountingHolder& holder) {
    kernels::Slot* const slot = pool.Take(holder);
    const std::uint64_t group = static_cast<FakeSlot*>(slot)->group();
    pool.Return(slot);
    return group;
  };
  const std::uint64_t greedy_group = group_of(pool_, greedy);
  EXPECT_NE(greedy_group, group_of(pool_, modest));
  EXPECT_EQ(greedy_group, group_of(pool_, greedy));
  EXPECT_EQ(greedy_group, group_of(other_share, greedy));
}

// A free slot is for the party that has the fewest, whoever asked first.
TEST_F(SlotPoolTest, WhoHasFewerSlotsIsServedFirst) {
  CountingHolder greedy("greedy");
  CountingHolder modest("modest");
  kernels::Slot* const first = pool_.Take(greedy);
  kernels::Slot* const second = pool_.Take(greedy);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(pool_.Take(greedy), nullptr);
  EXPECT_EQ(pool_.Take(modest), nullptr);
  kernels::Slot* taken = nullptr;
  modest.on_free = [&] { taken = pool_.Take(modest); };
  pool_.Return(first);
  pool_.Serve();
  EXPECT_EQ(taken, first);
  EXPECT_EQ(greedy.frees, 0);
  // Each has one now, and the greedy one was served longer ago.
  EXPECT_EQ(pool_.Take(modest), nullptr);
  pool_.Return(second);
  pool_.Serve();
  EXPECT_EQ(greedy.frees, 1);
  pool_.Leave(greedy);
  pool_.Leave(modest);
  EXPECT_EQ(pool_.waiting(), 0u);
}

// A party that does not take what it is offered does not keep others from taking it.
TEST_F(OneSlotTest, WhoDoesNotTakeItsTurnHasHadIt) {
  CountingHolder busy("busy");
  kernels::Slot* const slot = pool_.Take(busy);
  CountingHolder absent("absent");
  CountingHolder present("present");
  EXPECT_EQ(pool_.Take(absent), nullptr);
  EXPECT_EQ(pool_.Take(present), nullptr);
  pool_.Return(slot);
  pool_.Serve();
  EXPECT_EQ(absent.frees, 1);
  EXPECT_EQ(present.frees, 1);
  EXPECT_EQ(pool_.waiting(), 0u);
}

// The greedy one asks again at once, the patient one only when it is notified.
TEST_F(OneSlotTest, WhoTakesAgainAndAgainStarvesNobody) {
  CountingHolder greedy;
  CountingHolder patient;
  int taken_by_greedy = 0;
  int taken_by_patient = 0;
  greedy.on_free = [&] {
    while (kernels::Slot* const slot = pool_.Take(greedy)) {
      ASSERT_LT(++taken_by_greedy, 1000) << "it never queues";
      pool_.Return(slot);
    }
  };
  patient.on_free = [&] {
    kernels::Slot* const slot = pool_.Take(patient);
    ASSERT_NE(slot, nullptr);
    ++taken_by_patient;
    pool_.Return(slot);
    if (taken_by_patient < 50) {
      EXPECT_EQ(pool_.Take(patient), nullptr);
    } else {
      pool_.Leave(greedy);
    }
  };
  CountingHolder busy;
  Occupy(busy);
  EXPECT_EQ(pool_.Take(greedy), nullptr);
  EXPECT_EQ(pool_.Take(patient), nullptr);
  backend_.behaviour.FinishAll();
  pool_.Poll();
  EXPECT_EQ(taken_by_patient, 50);
  EXPECT_EQ(taken_by_greedy, 50) << "they take turns";
  EXPECT_EQ(pool_.free(), 1u);
}

TEST_F(OneSlotTest, ATurnIsForOneTake) {
  CountingHolder busy;
  Occupy(busy);
  CountingHolder first;
  CountingHolder second;
  kernels::Slot* again = nullptr;
  first.on_free = [&] {
    pool_.Return(pool_.Take(first));
    again = pool_.Take(first);
  };
  second.on_free = [&] { EXPECT_NE(pool_.Take(second), nullptr); };
  EXPECT_EQ(pool_.Take(first), nullptr);
  EXPECT_EQ(pool_.Take(second), nullptr);
  backend_.behaviour.FinishAll();
  pool_.Poll();
  EXPECT_EQ(again, nullptr);
  EXPECT_EQ(second.frees, 1);
  EXPECT_EQ(pool_.waiting(), 1u);
  pool_.Leave(first);
  pool_.Return(backend_.slots()[0].get());
}

// A turn that is not used must not be used later, when somebody else's has come.
TEST_F(OneSlotTest, ATurnEndsWithItsEvent) {
  CountingHolder busy;
  Occupy(busy);
  CountingHolder lazy;
  CountingHolder other;
  EXPECT_EQ(pool_.Take(lazy), nullptr);
  backend_.behaviour.FinishAll();
  pool_.Poll();
  EXPECT_EQ(lazy.frees, 1);
  Occupy(busy);
  EXPECT_EQ(pool_.Take(other), nullptr);
  backend_.behaviour.FinishAll();
  EXPECT_TRUE(pool_.CollectAtOnce(backend_.slots()[0].get()).has_value());
  EXPECT_EQ(pool_.Take(lazy), nullptr) << "the other came first";
  pool_.Leave(lazy);
  pool_.Leave(other);
}

}  // namespace
}  // namespace warpfold::server
