// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where resident arrays lie: how they are divided among several devices.
#include "server/core/references/resident_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <vector>

#include "proto/leaf.h"
#include "tests/server/fake_backend.h"

namespace warpfold::server {
namespace {

using Parts = std::vector<NamedMemory::Part>;
constexpr std::uint64_t kLeaf = kLeafBytes;

ResidentPool PoolOf(int devices, std::uint64_t bytes_of_each, std::uint64_t part_bytes) {
  return {FakeBackend(devices, kLeaf, devices).AllocateOfEach(bytes_of_each), part_bytes};
}

std::vector<std::uint64_t> BytesOf(const Parts& parts) {
  std::vector<std::uint64_t> bytes;
  for (const NamedMemory::Part& part : parts) bytes.push_back(part.byte_count);
  return bytes;
}

TEST(ResidentPoolTest, LargeArraysAreCutForAllDevices) {
  ResidentPool pool = PoolOf(3, 100 * kLeaf, 10 * kLeaf);
  using Bytes = std::vector<std::uint64_t>;
  EXPECT_EQ(BytesOf(pool.Take(0)), Bytes{0});
  EXPECT_EQ(BytesOf(pool.Take(10 * kLeaf)), Bytes{10 * kLeaf}) << "not worth a second device";
  EXPECT_EQ(BytesOf(pool.Take(10 * kLeaf + 1)), (Bytes{6 * kLeaf, 4 * kLeaf + 1}));
  EXPECT_EQ(BytesOf(pool.Take(60 * kLeaf)), (Bytes{20 * kLeaf, 20 * kLeaf, 20 * kLeaf}));
  const Parts parts = pool.Take(31 * kLeaf);
  std::set<int> devices;
  for (const NamedMemory::Part& part : parts) devices.insert(*part.memory->device());
  EXPECT_EQ(devices.size(), 3u);
}

TEST(ResidentPoolTest, SmallArraysGoWhereThereIsRoom) {
  ResidentPool pool = PoolOf(2, 10 * kLeaf, 1000 * kLeaf);
  std::vector<int> counts(2);
  for (int i = 0; i < 20; ++i) {
    const Parts parts = pool.Take(kLeaf);
    ASSERT_EQ(parts.size(), 1u);
    ++counts[*parts[0].memory->device()];
  }
  EXPECT_EQ(counts, (std::vector<int>{10, 10}));
  EXPECT_TRUE(pool.Take(1).empty());
}

TEST(ResidentPoolTest, RoomDecidesWhereItIsScarce) {
  ResidentPool pool = PoolOf(2, 100 * kLeaf, 90 * kLeaf);
  ASSERT_EQ(pool.Take(90 * kLeaf).size(), 1u);
  EXPECT_EQ(pool.Take(95 * kLeaf).size(), 1u) << "one device has no room for a half";
  EXPECT_EQ(pool.LargestArray(), 10 * kLeaf);
  ResidentPool of_large_parts = PoolOf(2, 100 * kLeaf, 1000 * kLeaf);
  EXPECT_EQ(of_large_parts.LargestArray(), 200 * kLeaf);
  EXPECT_EQ(of_large_parts.Take(150 * kLeaf).size(), 2u) << "more than one device has";
}

TEST(ResidentPoolTest, GivesOutEveryByteOnceAndKnowsWhatFits) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::minstd_rand random(seed);
    const int devices = static_cast<int>(1 + random() % 4);
    ResidentPool pool = PoolOf(devices, 64 * kLeaf, (1 + random() % 20) * kLeaf);
    std::deque<Parts> taken;
    std::set<std::pair<const kernels::Memory*, std::uint64_t>> units;  // that arrays have
    for (int step = 0; step < 300; ++step) {
      if (!taken.empty() && random() % 3 == 0) {
        std::swap(taken[random() % taken.size()], taken.front());
        for (const auto& part : taken.front()) {
          for (std::uint64_t at = 0; at < part.byte_count; at += RangeAllocator::kAlignment) {
            units.erase({part.memory.get(), part.byte_offset + at});
          }
        }
        pool.Return(taken.front());
        taken.pop_front();
        continue;
      }
      const std::uint64_t largest = pool.LargestArray();
      const std::uint64_t wanted = random() % 4 == 0 ? largest : 1 + random() % (40 * kLeaf);
      Parts parts = pool.Take(wanted);
      if (wanted <= largest && largest > 0) {
        ASSERT_FALSE(parts.empty()) << wanted << " of " << largest;
      }
      if (wanted > largest + devices * devices * kLeaf) {
        ASSERT_TRUE(parts.empty()) << wanted << " of " << largest;
      }
      std::uint64_t bytes = 0;
      for (const auto& part : parts) {
        bytes += part.byte_count;
        if (&part != &parts.back()) {
          EXPECT_EQ(part.byte_count % kLeaf, 0u);
        }
        EXPECT_LE(part.byte_offset + part.byte_count, part.memory->size());
        for (std::uint64_t at = 0; at < part.byte_count; at += RangeAllocator::kAlignment) {
          EXPECT_TRUE(units.emplace(part.memory.get(), part.byte_offset + at).second);
        }
      }
      if (!parts.empty()) {
        EXPECT_EQ(bytes, wanted);
        taken.push_back(std::move(parts));
      }
    }
    for (const Parts& parts : taken) pool.Return(parts);
    EXPECT_EQ(pool.free_bytes(), pool.bytes());
    EXPECT_EQ(pool.bytes(), devices * 64 * kLeaf);
  }
}

}  // namespace
}  // namespace warpfold::server
