// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// A share of two slots, or of one, on a fake device.
#pragma once

#include <gtest/gtest.h>

#include "server/core/slots/slot_share.h"
#include "tests/server/drive_session.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {

inline kernels::ReductionPlan SumOfInts() {
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

}  // namespace warpfold::server
