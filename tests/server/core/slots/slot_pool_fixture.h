// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool of two slots, or of one, on a fake device.
#pragma once

#include <gtest/gtest.h>

#include "server/core/slots/slot_pool.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {

inline kernels::ReductionPlan SumOfInts() {
  kernels::ReductionSpec spec;
  spec.operators = {"sum"};
  spec.element_type = kernels::ElementType::kInt32;
  return kernels::ReductionPlan::Create(spec).value();
}

class SlotPoolTest : public testing::Test {
 protected:
  explicit SlotPoolTest(int slots = 2) : backend_(slots), pool_(SlotsOf(backend_)) {}

  absl::Status Start(CountingHolder& holder, kernels::Slot* slot) {
    return pool_.Started(holder, slot, slot->Start(SumOfInts(), 0, 1024));
  }
  // Takes a slot and starts it on a device that does not finish.
  kernels::Slot* Occupy(CountingHolder& holder) {
    backend_.behaviour.SetBlocked(true);
    kernels::Slot* const slot = pool_.Take(holder);
    EXPECT_NE(slot, nullptr);
    EXPECT_TRUE(Start(holder, slot).ok());
    return slot;
  }

  FakeBackend backend_;
  SlotPool pool_;
};

class OneSlotTest : public SlotPoolTest {
 protected:
  OneSlotTest() : SlotPoolTest(1) {}
};

}  // namespace warpfold::server
