// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// For how long the shard polls for the end of work on an array in the device's memory.
#include "server/core/slots/memory_reducer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/server/core/slots/slot_pool_fixture.h"

namespace warpfold::server {
namespace {

TEST(TimeAwakeTest, GrowsWithTheArrayUpToALimit) {
  using std::chrono::microseconds;
  EXPECT_EQ(TimeAwake(0), microseconds(3'000));
  EXPECT_EQ(TimeAwake(10'000'000'000), microseconds(8'000));
  EXPECT_EQ(TimeAwake(94'000'000'000), microseconds(50'000));
  EXPECT_EQ(TimeAwake(std::uint64_t{1} << 63), microseconds(50'000));
}

// An array that takes several slots: the time is that of all its bytes, and not of the bytes of a slot.
TEST(MemoryReducerTest, ItsEndIsLookedForAsLongAsAllOfItTakes) {
  constexpr std::uint64_t kSlotBytes = 64 << 10;
  constexpr std::uint64_t kArrayBytes = 8 << 20;
  FakeBackend backend(2, kSlotBytes);
  backend.behaviour.SetBlocked(true);
  SlotPool pool(SlotsOf(backend));
  std::vector<std::byte> bytes(kArrayBytes);
  const auto array = std::make_shared<const NamedMemory>(std::vector<NamedMemory::Part>{
      {std::make_shared<FakeMemory>(bytes, /*host_can_read=*/false), 0, kArrayBytes}});
  const Clock clock = [] { return absl::UnixEpoch(); };
  MemoryReducer reducer(PartySlots(pool), clock,
                        {.reduction = SumOfInts(), .memory = array, .element_count = kArrayBytes / 4}, [] {});
  EXPECT_EQ(pool.PollTime(), std::nullopt);
  ASSERT_EQ(*reducer.TryFinish(), false);
  EXPECT_EQ(pool.in_flight(), 2u);
  EXPECT_EQ(pool.PollTime(), absl::Milliseconds(3) + absl::Nanoseconds(kArrayBytes / 2000));
  backend.behaviour.SetBlocked(false);
  while (!*reducer.TryFinish()) pool.Poll();
}

}  // namespace
}  // namespace warpfold::server
