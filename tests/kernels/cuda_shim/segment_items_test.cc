// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How segments of varying lengths are divided into items: the kernels rely on the limits of a tile, and if
// one exceeds them, a value is wrong without an error.
#include "kernels/cuda/segments/segment_items.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace warpfold::kernels::cuda {
namespace {

constexpr std::uint32_t kElementShift = 2;  // float32
constexpr std::uint32_t kLeafShift = 10;
constexpr std::uint64_t kLeaf = std::uint64_t{1} << kLeafShift;
constexpr std::uint64_t kVector = kVectorBytes >> kElementShift;

std::vector<SegmentItem> ItemsOf(const std::vector<std::uint64_t>& lengths, const SegmentPlan& plan) {
  const SegmentCut cut = {.segment_count = lengths.size(), .lengths = lengths};
  std::vector<SegmentItem> items;
  ForEachItem(cut, plan, [&](const SegmentItem& item) { items.push_back(item); });
  return items;
}

// Whether a tile may have these segments.
bool FitsATile(const SegmentPlan& plan, const std::vector<std::uint64_t>& lengths, std::uint64_t first,
               std::uint64_t end) {
  std::uint64_t elements = 0;
  std::uint64_t longest = 0;
  for (std::uint64_t segment = first; segment < end; ++segment) {
    elements += lengths[segment];
    longest = std::max(longest, lengths[segment]);
  }
  return longest <= kLeaf && end - first <= MostInTile(plan, longest) && elements <= MostElementsInTile(plan);
}

// Each tile is as large as it may be, each longer segment has its runs, and nothing is left out.
void Check(const std::vector<std::uint64_t>& lengths, const SegmentPlan& plan) {
  std::uint64_t segment = 0;
  std::uint64_t runs = 0;
  std::uint64_t run = 0;
  for (const SegmentItem& item : ItemsOf(lengths, plan)) {
    ASSERT_EQ(item.segment, segment);
    if (item.count > 0) {
      ASSERT_TRUE(FitsATile(plan, lengths, segment, segment + item.count))
          << item.count << " segments from " << segment << " on";
      segment += item.count;
      ASSERT_FALSE(segment < lengths.size() && FitsATile(plan, lengths, item.segment, segment + 1));
      continue;
    }
    const std::uint64_t runs_of_segment = RunsOf(lengths[segment], plan);
    ASSERT_GT(lengths[segment], kLeaf);
    ASSERT_EQ(item.run, run);
    ASSERT_EQ(item.first_run, runs);
    if (++run < runs_of_segment) continue;
    if (runs_of_segment > 1) runs += runs_of_segment;
    run = 0;
    ++segment;
  }
  EXPECT_EQ(segment, lengths.size());
}

TEST(SegmentItemsTest, TilesAreFullAndWithinTheirLimits) {
  std::mt19937_64 random(1);
  for (const bool in_registers : {false, true}) {
    for (std::uint32_t level = 0; level <= kUsualRunLevel; ++level) {
      SegmentPlan plan;
      plan.element_shift = kElementShift;
      plan.leaf_shift = kLeafShift;
      plan.run_level = level;
      plan.in_registers = in_registers;
      for (int round = 0; round < 200; ++round) {
        const std::uint64_t longest[] = {2 * kVector, 40, kLeaf / 4, kLeaf, kLeaf + kVector, 20 * kLeaf};
        std::vector<std::uint64_t> lengths(1 + random() % 300);
        for (std::uint64_t& length : lengths) {
          length = random() % longest[random() % (round % 2 == 0 ? 4 : 6)];
          if (in_registers) length = length / kVector * kVector;
        }
        ASSERT_NO_FATAL_FAILURE(Check(lengths, plan)) << (in_registers ? "in registers, " : "") << level;
      }
    }
  }
}

// A longer segment makes the places fewer than the segments that are already in the tile.
TEST(SegmentItemsTest, ALongerSegmentEndsATile) {
  SegmentPlan plan;
  plan.element_shift = kElementShift;
  plan.leaf_shift = kLeafShift;
  plan.run_level = kUsualRunLevel;
  plan.in_registers = true;
  std::vector<std::uint64_t> lengths(20, 32);
  lengths.push_back(288);
  const std::vector<SegmentItem> items = ItemsOf(lengths, plan);
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].count, 20u);
  EXPECT_EQ(items[1].count, 1u);
}

}  // namespace
}  // namespace warpfold::kernels::cuda
