// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many schedules of the core, each from its own seed. WARPFOLD_SIMULATION_SCHEDULES says how many;
// WARPFOLD_SIMULATION_SEED replays one.
#include "tests/server/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/server/quiet_protobuf.h"

namespace warpfold::server {
namespace {

constexpr std::uint64_t kSchedules = 100'000;

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(SimulationTest, EveryScheduleEndsWell) {
  const QuietProtobuf quiet;
  const bool replay = std::getenv("WARPFOLD_SIMULATION_SEED") != nullptr;
  const std::uint64_t first = FromEnvironment("WARPFOLD_SIMULATION_SEED", 1);
  const std::uint64_t count = replay ? 1 : FromEnvironment("WARPFOLD_SIMULATION_SCHEDULES", kSchedules);
  std::map<std::string, int> answers;
  std::uint64_t piece_starts = 0;
  std::uint64_t starts_across = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("WARPFOLD_SIMULATION_SEED=" + std::to_string(seed));
    World world(seed);
    ASSERT_EQ(world.Run(), "");
    for (const auto& [reason, n] : world.answers()) answers[reason] += n;
    piece_starts += static_cast<std::uint64_t>(world.piece_starts());
    starts_across += static_cast<std::uint64_t>(world.starts_across());
  }
  if (count < 10'000) return;
  // The test would prove nothing about what does not happen.
  EXPECT_GT(answers["OK"], static_cast<int>(count));
  EXPECT_GT(piece_starts, count / 4);
  EXPECT_GT(starts_across, count / 100);
  for (const char* const reason :
       {"CANCELLED", "DEADLINE", "IDLE", "RATE", "DRAINING", "TOO_MANY_REDUCTIONS", "DEVICE_LOST",
        "NO_COMMIT", "COUNT_MISMATCH", "CHECKSUM_MISMATCH", "BAD_ORDER", "BAD_MESSAGE", "BAD_HEADER",
        "BAD_STATE", "UNKNOWN_MEMORY", "RESIDENT_FULL"}) {
    EXPECT_GT(answers[reason], static_cast<int>(count / 1000)) << reason;
  }
}

}  // namespace
}  // namespace warpfold::server
