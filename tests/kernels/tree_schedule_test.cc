// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the GPU's warps share the product of large matrices, shown by a simulation that needs no GPU.
#include "kernels/cuda/matrix/tree_schedule.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/matrix/matrix_plan.h"
#include "kernels/partial_state.h"

namespace warpfold::kernels::cuda {
namespace {

using Random = std::mt19937_64;

// The tiles of matrix_tile.cuh, for entries of four and of eight bytes, and of tensor_tile.cuh: for matrices
// with more than half of their padded dimension.
std::vector<TileShape> Shapes() {
  std::vector<TileShape> shapes = {{4, 4, 8, 16, 4, TensorTileWaitingLevels(16)},
                                   {4, 8, 8, 32, 4, TensorTileWaitingLevels(32)}};
  for (const std::uint32_t entry_bytes : {4u, 8u}) {
    for (const TileTuning& tile : kTileTunings) {
      const int padded = tile.lane_rows * tile.rows;
      shapes.push_back({entry_bytes, static_cast<std::uint32_t>(tile.lane_rows),
                        static_cast<std::uint32_t>(tile.lane_columns), static_cast<std::uint32_t>(padded),
                        tile.is_fixed ? kVectorBytes / entry_bytes : 1, TileWaitingLevels(padded)});
    }
  }
  return shapes;
}

std::uint32_t SmallestDimension(const TileShape& shape) {
  return shape.vector > 1 ? shape.padded_dimension : std::max(3u, shape.padded_dimension / 2 + 1);
}

// Simulates a launch: units in any order, groups when the last of their nodes is there. Checks that every
// maximal subtree of the range is made once, from what it covers, and that memory is enough.
class Simulation {
 public:
  explicit Simulation(const TreePlan& plan)
      : plan_(plan), expected_(MaximalSubtrees(plan.first_leaf, plan.end_leaf - plan.first_leaf)) {}

  void Run(Random& random) {
    std::vector<std::uint64_t> units(plan_.units);
    for (std::uint64_t i = 0; i < units.size(); ++i) units[i] = plan_.first_unit + i;
    std::shuffle(units.begin(), units.end(), random);
    const TreeRound leaves = {0, plan_.first_leaf, plan_.end_leaf, 0, 0};
    for (const std::uint64_t unit : units) {
      TreeGroup group = GroupOf(leaves, unit, plan_.unit_level);
      ASSERT_LT(group.begin, group.end);
      while (group.begin < group.end) {
        const Subtree node = FirstSubtree(group.begin, group.end, plan_.unit_level);
        group.begin += std::uint64_t{1} << node.level;
        if (node.level < plan_.unit_level) {
          Finish(node);
        } else {
          Climb(FirstRound(plan_.first_leaf, plan_.end_leaf, plan_.unit_level), node.index);
        }
      }
    }
    EXPECT_EQ(finished_.size(), expected_.size());
  }

  std::uint64_t states() const { return states_.empty() ? 0 : states_.rbegin()->first + 1; }
  std::uint64_t tickets() const { return tickets_.empty() ? 0 : tickets_.rbegin()->first + 1; }

 private:
  void Finish(Subtree node) {
    const std::uint32_t place =
        PlaceOf(node, plan_.first_leaf, plan_.end_leaf, static_cast<std::uint32_t>(expected_.size()));
    ASSERT_LT(place, expected_.size());
    EXPECT_EQ(expected_[place], (NodePosition{node.level, node.index}));
    EXPECT_TRUE(finished_.insert(place).second);
  }

  void Climb(TreeRound round, std::uint64_t index) {
    while (true) {
      const auto [state, is_new] = states_.emplace(round.base + index - round.begin, round.level);
      ASSERT_TRUE(is_new) << "two nodes have one place";
      const std::uint64_t number = index >> plan_.group_level;
      TreeGroup group = GroupOf(round, number, plan_.group_level);
      auto& drawn = tickets_[round.tickets + number - (round.begin >> plan_.group_level)];
      ASSERT_LT(drawn, group.end - group.begin) << "two groups have one ticket";
      if (++drawn < group.end - group.begin) return;
      const Subtree all = FirstSubtree(group.begin, group.end, plan_.group_level);
      if (all.level == plan_.group_level) {
        index = all.index;
        round = NextRound(round, plan_.group_level);
        continue;
      }
      while (group.begin < group.end) {
        const Subtree node = FirstSubtree(group.begin, group.end, plan_.group_level);
        Finish({round.level + node.level, node.index});
        group.begin += std::uint64_t{1} << node.level;
      }
      return;
    }
  }

  const TreePlan plan_;
  const std::vector<NodePosition> expected_;
  std::set<std::uint32_t> finished_;
  std::map<std::uint64_t, std::uint32_t> states_;
  std::map<std::uint64_t, std::uint64_t> tickets_;
};

TEST(TreeScheduleTest, EverySubtreeIsMadeOnce) {
  Random random;
  for (const TileShape& shape : Shapes()) {
    for (std::uint32_t d = SmallestDimension(shape); d <= shape.padded_dimension; ++d) {
      const std::uint64_t element_bytes = std::uint64_t{d} * d * shape.entry_bytes;
      for (const std::uint64_t first_leaf :
           {std::uint64_t{0}, std::uint64_t{1}, random() % 5000, (std::uint64_t{1} << 40) + 21}) {
        const std::uint64_t elements = 1 + random() % (std::uint64_t{1} << (random() % 16));
        SCOPED_TRACE(testing::Message() << d << " rows, from leaf " << first_leaf << ", " << elements);
        const MatrixPlan plan = PlanMatrices(shape, d, PairStride(shape, d), first_leaf, elements, 4);
        const std::uint64_t leaves = ((elements - 1) >> plan.tree.leaf_level) + 1;
        Simulation simulation(plan.tree);
        ASSERT_NO_FATAL_FAILURE(simulation.Run(random));
        const std::uint64_t array_bytes = (leaves << plan.tree.leaf_level) * element_bytes;
        EXPECT_LE(simulation.states() * element_bytes, array_bytes / 4);
        EXPECT_LE(simulation.tickets(), TreeTickets(array_bytes));
      }
    }
  }
}

TEST(TreeScheduleTest, UnitsGrowWithTheArray) {
  for (const TileShape& shape : Shapes()) {
    const std::uint32_t d = shape.padded_dimension;
    const std::uint64_t elements = (std::uint64_t{1} << 32) / (d * d * shape.entry_bytes);
    const MatrixPlan large = PlanMatrices(shape, d, PairStride(shape, d), 0, elements, 132);
    EXPECT_EQ(large.waiting_levels, shape.most_waiting_levels);
    EXPECT_LE(large.shared_bytes, kMaxTileSharedBytes);
    EXPECT_GE(large.tree.units, 132u * 32u);
  }
}

// GPUs before sm_80 have 64 KiB for a block.
TEST(TreeScheduleTest, UnitsAreSmallerWhereThereIsLessSharedMemory) {
  constexpr std::uint32_t kLess = 64 << 10;
  for (const TileShape& shape : Shapes()) {
    for (std::uint32_t d = SmallestDimension(shape); d <= shape.padded_dimension; ++d) {
      const std::uint64_t elements = (std::uint64_t{1} << 32) / (d * d * shape.entry_bytes);
      const MatrixPlan plan = PlanMatrices(shape, d, PairStride(shape, d), 0, elements, 132, kLess);
      EXPECT_LE(plan.shared_bytes, kLess) << d << " rows of " << shape.entry_bytes << " bytes";
    }
  }
}

TEST(TreeScheduleTest, PairsDoNotMeetInBanks) {
  for (const TileShape& shape : Shapes()) {
    for (std::uint32_t d = SmallestDimension(shape); d <= shape.padded_dimension; ++d) {
      SCOPED_TRACE(testing::Message()
                   << d << " rows of " << shape.entry_bytes << " bytes, in vectors of " << shape.vector);
      const std::uint32_t pair = 2 * d * shape.RowStride(d);
      const std::uint32_t stride = PairStride(shape, d);
      EXPECT_GE(stride, pair + shape.padded_dimension - d) << "a tile reads beyond the right matrix";
      EXPECT_EQ(stride * shape.entry_bytes % (pair * shape.entry_bytes % 16 == 0 ? 16 : 8), 0u);
      EXPECT_LE(BankTurns(shape, d, stride), BankTurns(shape, d, pair));
      // Whole vectors: each of the two loads takes its turns, and no more.
      if (shape.vector > 1) {
        EXPECT_EQ(BankTurns(shape, d, stride), shape.lanes_each() > 1 ? 2 * 2u : 2 * 4u);
      }
    }
  }
}

// Two turns for a warp's vectors: neighbours read the same left factors, and lanes two apart read the same
// right ones.
TEST(TreeScheduleTest, LanesShareFactorsInPairs) {
  for (const TileShape& shape : Shapes()) {
    SCOPED_TRACE(testing::Message() << shape.lane_rows << " x " << shape.lane_columns << " lanes");
    std::set<std::pair<std::uint32_t, std::uint32_t>> places;
    for (std::uint32_t lane = 0; lane < shape.lanes_each(); ++lane) {
      const LanePlace place = shape.PlaceOf(lane);
      EXPECT_LT(place.row, shape.lane_rows);
      EXPECT_LT(place.column, shape.lane_columns);
      EXPECT_TRUE(places.emplace(place.row, place.column).second) << "two lanes in one place";
      if (shape.lanes_each() == 1) continue;
      EXPECT_EQ(place.row, shape.PlaceOf(lane ^ 1).row);
      EXPECT_EQ(place.column, shape.PlaceOf(lane ^ 2).column);
    }
  }
}

TEST(TreeScheduleTest, BankTurnsCountDifferentWordsOfABank) {
  const TileShape one_lane_each = {4, 1, 1, 4, 4};
  // Lanes that are 32 words apart meet in every bank, all eight that read at once.
  EXPECT_EQ(BankTurns(one_lane_each, 4, 32), 2 * 4 * 8u);
  EXPECT_EQ(BankTurns(one_lane_each, 4, 36), 2 * 4u);
  // Lanes that share a product, in pairs: if they are 32 words apart they meet, if 36 words apart they do
  // not.
  const TileShape whole_warp = {4, 4, 8, 32, 4};
  EXPECT_EQ(whole_warp.RowStride(32), 36u);
  EXPECT_EQ(BankTurns(whole_warp, 32, 2 * 32 * 36), 2 * 2u);
  // All lanes of one product: the left factors are words that many lanes read.
  const TileShape all_lanes = {4, 4, 8, 32, 1};
  EXPECT_EQ(BankTurns(all_lanes, 31, 2 * 31 * 31 + 1), 2u);
}

}  // namespace
}  // namespace warpfold::kernels::cuda
