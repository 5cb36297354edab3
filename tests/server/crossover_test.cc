// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/crossover.h"

#include <gtest/gtest.h>

#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

// A device whose round trip takes a fixed time, on a clock that the host's work does not move.
TEST(CrossoverTest, IsWhereTheDeviceWins) {
  FakeBackend backend(1, std::size_t{256} << 10);
  absl::Time now = absl::UnixEpoch();
  const Clock frozen = [&] { return now; };
  EXPECT_EQ(MeasureCrossoverBytes(backend, frozen).value(), std::uint64_t{256} << 10);
  // Each look at the clock takes longer than the one before while the slot has not been used.
  const Clock until_first_start = [&] {
    if (backend.behaviour.starts == 0) now += absl::Seconds(1);
    return now;
  };
  backend.behaviour.starts = 0;
  EXPECT_EQ(MeasureCrossoverBytes(backend, until_first_start).value(), 4096u);
}

TEST(CrossoverTest, ADeviceThatFailsIsNotServed) {
  FakeBackend backend(1, std::size_t{256} << 10);
  backend.behaviour.fail_start = true;
  EXPECT_EQ(MeasureCrossoverBytes(backend, MonotonicClock()).status(), DeviceLost());
  backend.behaviour.fail_start = false;
  backend.behaviour.fail_wait = true;
  EXPECT_EQ(MeasureCrossoverBytes(backend, MonotonicClock()).status(), DeviceLost());
}

}  // namespace
}  // namespace warpfold::server
