// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/process/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/devices.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The error for slots of 130 MiB if next to nothing is allowed.
std::string RefusalOf(const Flags& flags) {
  return std::string(CheckBudget(BudgetOf(flags, {.host_bytes = 130 * kMiB}), flags, 1).message());
}

TEST(MemoryBudgetTest, IsTheSumOfWhatTheFlagsAllow) {
  Flags flags;
  flags.max_concurrent_reductions = 10;
  flags.resident_bytes = 3 * kMiB;
  const MemoryBudget cpu = BudgetOf(flags, {.host_bytes = 2 * kMiB, .slot_bytes = kMiB, .shards = 2});
  // For each place a reduction of segments and a merge, of messages of 4 MiB and 64 KiB: a message, a window,
  // 4 and 0.5 MiB of results, 1 MiB of lengths and 1 MiB of half a segment; a message. For each shard, a
  // message and its objects. 64 + 64 messages of 64 KiB and 1024 calls of 14 KiB that are small.
  constexpr std::uint64_t kMessage = 4 * kMiB + kMiB / 16;
  constexpr std::uint64_t kPlace = kMessage + 4 * kMiB + 13 * kMiB / 2 + kMessage;
  const std::uint64_t calls = 10 * kPlace + 2 * (kMessage + 24 * kMiB);
  constexpr std::uint64_t kSmall = 22 * kMiB;
  // 512 connections of 100 KiB, each with 2 x 10 + 16 calls of 22 KiB.
  constexpr std::uint64_t kConnections = 512 * (100 + 36 * 22) * kMiB / 1024;
  EXPECT_EQ(cpu.connections, kConnections);
  EXPECT_EQ(cpu.calls, calls);
  EXPECT_EQ(cpu.small, kSmall);
  EXPECT_EQ(cpu.total(), calls + kSmall + kConnections + (64 + 2 + 64 + 3) * kMiB);
  EXPECT_EQ(cpu.received(), calls + kSmall + 64 * kMiB) << "what gRPC may hold";
  EXPECT_EQ(ToText(cpu),
            "memory: at most 844 MiB (of them base 64, connections 446, slots 2, to receive into 0, "
            "calls 243, small calls 22, answers 64, resident arrays 3)");
  const MemoryBudget gpu = BudgetOf(
      flags,
      {.gpus = 1, .host_bytes = 8 * kMiB, .slot_bytes = kMiB, .receive_bytes = 16 * kMiB, .shards = 2});
  EXPECT_EQ(gpu.total(), calls + kSmall + kConnections + (64 + 512 + 8 + 16 + 64) * kMiB);
  EXPECT_EQ(gpu.received(), cpu.received() + 16 * kMiB);
  const MemoryBudget two = BudgetOf(
      flags,
      {.gpus = 2, .host_bytes = 16 * kMiB, .slot_bytes = kMiB, .receive_bytes = 32 * kMiB, .shards = 2});
  EXPECT_EQ(two.total(), calls + kSmall + kConnections + (64 + 2 * 512 + 16 + 32 + 64) * kMiB);
}

// A slot has memory for results that is a quarter of its bytes. The results of two slots may wait for their
// client.
TEST(MemoryBudgetTest, LargeSlotsHaveMoreResultsThanWaitOtherwise) {
  Flags flags;
  flags.max_concurrent_reductions = 10;
  // Slots of 4 MiB and more all hold as much of a segment.
  const std::uint64_t usual = BudgetOf(flags, {.slot_bytes = 4 * kMiB}).calls;
  EXPECT_EQ(BudgetOf(flags, {.slot_bytes = 8 * kMiB}).calls, usual);
  EXPECT_EQ(BudgetOf(flags, {.slot_bytes = 10 * kMiB}).calls, usual + 10 * kMiB);
}

// Less than a slot's bytes, and 4 MiB at most, for each place.
TEST(MemoryBudgetTest, HalfASegmentIsCounted) {
  Flags flags;
  flags.max_concurrent_reductions = 10;
  const std::uint64_t without = BudgetOf(flags, {}).calls;
  EXPECT_EQ(BudgetOf(flags, {.slot_bytes = kMiB / 2}).calls, without + 5 * kMiB);
  EXPECT_EQ(BudgetOf(flags, {.slot_bytes = 4 * kMiB}).calls, without + 40 * kMiB);
  EXPECT_EQ(BudgetOf(flags, {.slot_bytes = 8 * kMiB}).calls, without + 40 * kMiB);
}

TEST(MemoryBudgetTest, IsHeldAgainstTheLimit) {
  const Flags flags;
  const MemoryBudget budget = BudgetOf(flags, {.host_bytes = 4 * kMiB});
  EXPECT_TRUE(CheckBudget(budget, flags, std::nullopt).ok());
  EXPECT_TRUE(CheckBudget(budget, flags, budget.total() + 1).ok());
  EXPECT_TRUE(CheckBudget(budget, flags, budget.total()).ok());
  const absl::Status above = CheckBudget(budget, flags, budget.total() - 1);
  EXPECT_EQ(above.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(above.message()),
              testing::StartsWith("--max_concurrent_reductions=64: memory: at most 2065 MiB"));
}

TEST(MemoryBudgetTest, ConnectionsHaveSoManyCallsAtMost) {
  Flags flags;
  flags.max_connections = 3;
  flags.max_concurrent_reductions = 1000;
  EXPECT_EQ(BudgetOf(flags, {}).connections, 3 * (100 + 64 * 22) * kMiB / 1024);
  flags.max_concurrent_reductions = 1;
  EXPECT_EQ(BudgetOf(flags, {}).connections, 3 * (100 + 18 * 22) * kMiB / 1024);
  flags.max_connections = 1;
  EXPECT_EQ(BudgetOf(flags, {}).connections, (100 + 18 * 22) * kMiB / 1024);
}

TEST(MemoryBudgetTest, TheFlagOfTheLargestPartIsNamed) {
  Flags flags;
  flags.max_concurrent_reductions = 1;
  flags.max_connections = 100;
  flags.slots = 5;
  EXPECT_THAT(RefusalOf(flags), testing::StartsWith("--slots=5: "));
  flags.resident_bytes = 140 * kMiB;
  EXPECT_THAT(RefusalOf(flags), testing::StartsWith("--resident_bytes=146800640: "));
  const MemoryBudget received = BudgetOf(flags, {.host_bytes = 75 * kMiB, .receive_bytes = 75 * kMiB});
  EXPECT_THAT(std::string(CheckBudget(received, flags, 1).message()), testing::StartsWith("--slots=5: "))
      << "both are the slots'";
  flags.max_connections = 0;
  EXPECT_THAT(RefusalOf(flags), testing::StartsWith("--max_connections=512: "));
}

TEST(MemoryBudgetTest, SlotsAreHeldAgainstWhatIsAvailable) {
  Flags flags;
  EXPECT_TRUE(CheckSlots(flags, 0).ok()) << "what suits the device";
  flags.slot_bytes = 5 * kMiB;
  // Each slot has a quarter as many bytes again for results of segments.
  const auto of_machine = static_cast<std::uint64_t>(SlotsOf(flags)) * flags.slot_bytes / 4 * 5;
  EXPECT_TRUE(CheckSlots(flags, of_machine).ok());
  EXPECT_THAT(std::string(CheckSlots(flags, of_machine - 1).message()),
              testing::StartsWith("--slot_bytes=5242880: "));
  flags.slots = 3;
  flags.slot_bytes = 5 * kMiB;
  constexpr std::uint64_t kThree = 15 * kMiB / 4 * 5;
  EXPECT_TRUE(CheckSlots(flags, kThree).ok());
  const absl::Status above = CheckSlots(flags, kThree - 1);
  EXPECT_EQ(above.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(above.message(), "--slots=3 --slot_bytes=5242880: 19 MiB, but 18 MiB of memory are available");
}

TEST(MemoryBudgetTest, SlotsWhoseSizeNobodyNamesHaveOne) {
  Flags flags;
  flags.device = "cpu";
  flags.slots = 256;
  EXPECT_TRUE(CheckSlots(flags, 160 * kMiB).ok());
  EXPECT_EQ(CheckSlots(flags, 160 * kMiB - 1).message(),
            "--slots=256: 160 MiB, but 159 MiB of memory are available");
  flags.device = "simt:7";
  EXPECT_TRUE(CheckSlots(flags, 160 * kMiB / 64).ok()) << "of which there are four at most";
  EXPECT_FALSE(CheckSlots(flags, 160 * kMiB / 64 - 1).ok());
}

// In addition to its staging buffer a slot of a GPU has tables, and a slot that no flag names has a size,
// too.
TEST(MemoryBudgetTest, SlotsOfAGpuAreCheckedWithTheirTables) {
  Flags flags;
  flags.slots = 10;
  flags.slot_bytes = 8 * kMiB;
  flags.device = "cpu";
  EXPECT_TRUE(CheckSlots(flags, 100 * kMiB).ok());
  flags.device = "cuda:0";
  EXPECT_FALSE(CheckSlots(flags, 100 * kMiB).ok());
  EXPECT_FALSE(CheckSlots(flags, 200 * kMiB).ok());
  EXPECT_TRUE(CheckSlots(flags, 201 * kMiB).ok());
  flags.device = "cuda:0,cuda:2";
  EXPECT_FALSE(CheckSlots(flags, 400 * kMiB).ok());
  EXPECT_TRUE(CheckSlots(flags, 401 * kMiB).ok());
  flags.device = "cuda:0";
  flags.slot_bytes = 0;
  EXPECT_EQ(CheckSlots(flags, 200 * kMiB).message(),
            "--slots=10: 201 MiB, but 200 MiB of memory are available");
  flags.slots = 0;
  EXPECT_TRUE(CheckSlots(flags, 0).ok()) << "what nobody has asked for";
}

// The budget that a server with `shards` threads computes on a GPU.
MemoryBudget BudgetOnGpus(int gpus, int shards) {
  constexpr std::uint64_t kSlotBytes = 8 * kMiB;
  const int slots = 2 * shards;
  const auto bytes = static_cast<std::uint64_t>(gpus * slots) * kSlotBytes;
  const std::uint64_t with_tables =
      static_cast<std::uint64_t>(gpus) *
      kernels::HostBytesOfSlots("cuda:0", {.slots = slots, .slot_bytes = kSlotBytes});
  return BudgetOf({}, {.gpus = gpus,
                       .host_bytes = with_tables,
                       .slot_bytes = kSlotBytes,
                       .receive_bytes = 2 * bytes,
                       .shards = shards});
}

// The budget that deploy/kubernetes asks for, and what docs/operating.md says about further GPUs.
TEST(MemoryBudgetTest, ManifestsAllowIt) {
  constexpr int kMaxShards = 16;
  const MemoryBudget gpu = BudgetOnGpus(1, kMaxShards);
  EXPECT_LE(gpu.total(), 6 * 1024 * kMiB);
  EXPECT_LE(gpu.base + gpu.slots + gpu.receive, 2 * 1024 * kMiB) << "at the start";
  const std::uint64_t further = BudgetOnGpus(2, kMaxShards).total() - gpu.total();
  EXPECT_GT(further, 1638 * kMiB) << "1.6 GiB";
  EXPECT_LE(further, 1741 * kMiB) << "1.7 GiB";
  EXPECT_LE(BudgetOf({}, {.host_bytes = 16 * kMiB, .slot_bytes = kMiB / 2, .shards = kMaxShards}).total(),
            4 * 1024 * kMiB);
}

}  // namespace
}  // namespace warpfold::server
