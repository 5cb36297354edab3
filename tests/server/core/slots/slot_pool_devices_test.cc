// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a shard lends the slots of several devices: a call that needs a slot of a certain device waits for that
// device, and only for that.
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "server/core/slots/slot_pool.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

// Two slots of each of two devices.
class TwoDevicesTest : public testing::Test {
 protected:
  FakeBackend backend_{4, std::size_t{64} << 10, 2};
  SlotPool pool_{SlotsOf(backend_)};
};

TEST_F(TwoDevicesTest, WhoNeedsADeviceGetsItsSlotsOnly) {
  CountingHolder holder;
  kernels::Slot* const first = pool_.Take(holder, 1);
  kernels::Slot* const second = pool_.Take(holder, 1);
  ASSERT_TRUE(first != nullptr && second != nullptr && first != second);
  EXPECT_EQ(first->device(), 1);
  EXPECT_EQ(second->device(), 1);
  EXPECT_EQ(pool_.Take(holder, 1), nullptr) << "slots of the other device are free";
  EXPECT_EQ(pool_.waiting(), 1u);
  pool_.Serve();
  EXPECT_EQ(holder.frees, 0);

  kernels::Slot* taken = nullptr;
  holder.on_free = [&] { taken = pool_.Take(holder, 1); };
  pool_.Return(second);
  pool_.Serve();
  EXPECT_EQ(taken, second);
  EXPECT_EQ(pool_.waiting(), 0u);
}

TEST_F(TwoDevicesTest, WhoWaitsForABusyDeviceHoldsNobodyUp) {
  CountingHolder busy;
  std::vector<kernels::Slot*> of_the_second = {pool_.Take(busy, 1), pool_.Take(busy, 1)};
  CountingHolder waiter;
  EXPECT_EQ(pool_.Take(waiter, 1), nullptr);

  CountingHolder other;
  kernels::Slot* const any = pool_.Take(other);
  kernels::Slot* const named = pool_.Take(other, 0);
  ASSERT_TRUE(any != nullptr && named != nullptr) << "nobody waits for these";
  EXPECT_EQ(any->device(), 0);
  EXPECT_EQ(pool_.Take(other), nullptr);

  // It asked later, but the slot that became free is of no use to the other.
  kernels::Slot* taken = nullptr;
  other.on_free = [&] { taken = pool_.Take(other); };
  pool_.Return(named);
  pool_.Serve();
  EXPECT_EQ(taken, named);
  EXPECT_EQ(waiter.frees, 0);
  EXPECT_EQ(pool_.waiting(), 1u);
}

TEST_F(TwoDevicesTest, ASlotIsNotTakenFromWhoWaitsForIt) {
  CountingHolder busy;
  for (int i = 0; i < 4; ++i) ASSERT_NE(pool_.Take(busy), nullptr);
  CountingHolder first("first");
  CountingHolder second("second");
  EXPECT_EQ(pool_.Take(first, 1), nullptr);
  pool_.Return(backend_.slots()[1].get());
  EXPECT_EQ(pool_.Take(second), nullptr) << "it is the turn of the other";
  pool_.Return(backend_.slots()[0].get());
  first.on_free = [&] { EXPECT_EQ(pool_.Take(first, 1), backend_.slots()[1].get()); };
  second.on_free = [&] { EXPECT_EQ(pool_.Take(second), backend_.slots()[0].get()); };
  pool_.Serve();
  EXPECT_EQ(first.frees, 1);
  EXPECT_EQ(second.frees, 1);
}

TEST_F(TwoDevicesTest, LoansOfTheDeviceAreCalledIn) {
  CountingHolder lenders[2];
  for (int device = 0; device < 2; ++device) {
    for (int i = 0; i < 2; ++i) pool_.SetAwaitingClient(pool_.Take(lenders[device], device), true);
  }
  CountingHolder caller;
  EXPECT_EQ(pool_.Take(caller, 1), nullptr);
  EXPECT_EQ(lenders[0].wanted, 0);
  EXPECT_EQ(lenders[1].wanted, 1);
}

// Each gets the slot for which it waits, in whatever order the devices finish.
TEST_F(TwoDevicesTest, NobodyWaitsForEver) {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  const kernels::ReductionPlan sum = kernels::ReductionPlan::Create(spec).value();
  std::minstd_rand random(7);
  backend_.behaviour.SetBlocked(true);
  std::deque<CountingHolder> holders;
  int served = 0;
  for (int i = 0; i < 200; ++i) {
    CountingHolder& holder = holders.emplace_back(std::to_string(random() % 5));
    const int choice = static_cast<int>(random() % 3);
    const std::optional<int> device = choice == 2 ? std::nullopt : std::optional(choice);
    const auto take = [&, device] {
      kernels::Slot* const slot = pool_.Take(holder, device);
      if (slot == nullptr) return;
      EXPECT_TRUE(!device.has_value() || slot->device() == *device);
      EXPECT_TRUE(pool_.Started(holder, slot, slot->Start(sum, 0, 1024)).ok());
      ++served;
    };
    holder.on_free = take;
    take();
    if (random() % 2 == 0) backend_.behaviour.Finish(random() % 4);
    pool_.Poll();
  }
  while (backend_.behaviour.working() > 0) {
    backend_.behaviour.Finish(random() % backend_.behaviour.working());
    pool_.Poll();
  }
  EXPECT_EQ(served, 200);
  EXPECT_EQ(pool_.waiting(), 0u);
  EXPECT_EQ(pool_.free(), 4u);
}

}  // namespace
}  // namespace warpfold::server
