// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// For how long the shard polls for the end of work on an array in the device's memory, and for how long that
// memory is kept.
#include "server/core/slots/memory_reducer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "server/core/slots/memory_segment_reducer.h"
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
  EXPECT_GT(array.use_count(), 1);
  while (!*reducer.TryFinish()) pool.Poll();
  EXPECT_EQ(array.use_count(), 1) << "the client's next request may need the room";
}

TEST(MemoryReducerTest, SegmentsDoNotKeepTheArrayEither) {
  FakeBackend backend;
  SlotPool pool(SlotsOf(backend));
  const std::vector<std::byte> bytes(4000);
  const auto array = std::make_shared<const NamedMemory>(std::vector<NamedMemory::Part>{
      {std::make_shared<FakeMemory>(bytes, /*host_can_read=*/false), 0, bytes.size()}});
  const Clock clock = [] { return absl::UnixEpoch(); };
  for (const std::uint64_t length : {10, 1000}) {
    MemorySegmentReducer reducer(
        PartySlots(pool), clock,
        {.reduction = SumOfInts(), .segment_length = length, .memory = array, .element_count = 1000}, [] {});
    while (!*reducer.TryFinish()) pool.Poll();
    EXPECT_TRUE(reducer.has_message());
    EXPECT_GT(array.use_count(), 1) << "there may be more lengths";
    reducer.EndMemory();
    EXPECT_EQ(array.use_count(), 1);
  }
}

}  // namespace
}  // namespace warpfold::server
