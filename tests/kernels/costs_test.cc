// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/costs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace warpfold::kernels::cpu {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

ReductionPlan PlanOf(std::vector<std::string> operators, ElementType type = ElementType::kFloat64) {
  ReductionSpec spec;
  spec.operators = std::move(operators);
  spec.element_type = type;
  return ReductionPlan::Create(spec).value();
}

TEST(CostsTest, FallsAtOnceAndDoublesAtMost) {
  Costs costs;
  costs.Learn(PlanOf({"sum"}), CostOf::kRange, microseconds(1000), 1'000'000);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, milliseconds(1)), 1'000'000u);
  costs.Learn(PlanOf({"sum"}), CostOf::kRange, microseconds(200), 1'000'000);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, milliseconds(1)), 5'000'000u);
  costs.Learn(PlanOf({"sum"}), CostOf::kRange, microseconds(220), 1'000'000);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, milliseconds(1)), 1'000'000'000u / 220);
  costs.Learn(PlanOf({"sum"}), CostOf::kRange, milliseconds(100), 1'000'000);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, milliseconds(1)), 1'000'000'000u / 440);
}

TEST(CostsTest, AssumesMuchOfWhatItDoesNotKnow) {
  const Costs costs;
  const std::uint64_t one = costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, milliseconds(1));
  EXPECT_EQ(one, 1'000'000'000u / 1500);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum", "exact_sum"}), CostOf::kRange, milliseconds(1)),
            1'000'000'000u / 3000);
  ReductionSpec matrices;
  matrices.operators = {"matrix_product"};
  matrices.element_type = ElementType::kFloat64;
  matrices.shape = {32, 32};
  EXPECT_EQ(costs.BytesIn(ReductionPlan::Create(matrices).value(), CostOf::kRange, milliseconds(1)),
            1'000'000'000u / 12'000);
}

TEST(CostsTest, TellsReductionsApart) {
  Costs costs;
  const std::vector<ReductionPlan> others = {PlanOf({"exact_sum"}), PlanOf({"sum", "exact_sum"}),
                                             PlanOf({"sum"}, ElementType::kFloat32)};
  std::vector<std::uint64_t> before;
  for (const ReductionPlan& other : others)
    before.push_back(costs.BytesIn(other, CostOf::kRange, milliseconds(1)));
  costs.Learn(PlanOf({"sum"}), CostOf::kRange, nanoseconds(100), 1 << 20);
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(costs.BytesIn(others[i], CostOf::kRange, milliseconds(1)), before[i]);
  }
}

TEST(CostsTest, TellsRangesFromSegments) {
  Costs costs;
  costs.Learn(PlanOf({"sum"}), CostOf::kRange, microseconds(1000), 1'000'000);
  costs.Learn(PlanOf({"sum"}), CostOf::kSegments, microseconds(500), 1'000'000);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, milliseconds(1)), 1'000'000u);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kSegments, milliseconds(1)), 2'000'000u);
}

TEST(CostsTest, TimesOfAnyLengthFit) {
  Costs costs;
  costs.Learn(PlanOf({"sum"}), CostOf::kRange, nanoseconds(0), 1 << 20);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, nanoseconds(1)), 1000u)
      << "at least a picosecond for a byte";
  for (int i = 0; i < 200; ++i) costs.Learn(PlanOf({"sum"}), CostOf::kRange, std::chrono::hours(1), 1);
  EXPECT_EQ(costs.BytesIn(PlanOf({"sum"}), CostOf::kRange, milliseconds(10)), 2u);
}

}  // namespace
}  // namespace warpfold::kernels::cpu
