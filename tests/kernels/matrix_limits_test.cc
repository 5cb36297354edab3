// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How large matrices may be, and their states.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/error.h"
#include "kernels/reduction.h"

namespace warpfold::kernels {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

ReductionSpec SpecOf(std::vector<std::string> operators, ElementType type, ElementShape shape) {
  ReductionSpec spec;
  spec.operators = std::move(operators);
  spec.element_type = type;
  spec.shape = shape;
  return spec;
}

TEST(MatrixLimitsTest, UpTo32RowsAndColumns) {
  for (const std::uint32_t n : {1u, 8u, 9u, 31u, 32u}) {
    EXPECT_TRUE(ReductionPlan::Create(SpecOf({"matrix_product"}, ElementType::kInt32, {n, n})).ok()) << n;
    EXPECT_TRUE(ReductionPlan::Create(SpecOf({"sum", "min"}, ElementType::kBfloat16, {n, 32})).ok()) << n;
  }
  for (const ElementShape shape : {ElementShape{33, 33}, {33, 1}, {1, 33}, {0, 1}, {1, 0}}) {
    const absl::Status status = ReductionPlan::Create(SpecOf({"sum"}, ElementType::kInt32, shape)).status();
    EXPECT_EQ(ErrorReason(status), "BAD_HEADER") << shape.rows;
    EXPECT_THAT(ErrorDetails(status), Contains(Pair("field", "matrix_shape")));
    EXPECT_THAT(ErrorDetails(status), Contains(Pair("value", "32")));
  }
  EXPECT_EQ(
      ErrorReason(ReductionPlan::Create(SpecOf({"matrix_product"}, ElementType::kInt32, {31, 32})).status()),
      "UNSUPPORTED_TYPE");
}

TEST(MatrixLimitsTest, StatesOfANodeFitTheirLimit) {
  const ElementShape largest = {32, 32};
  // 16 bytes for each entry of each of them: exactly as many as allowed.
  const ReductionPlan full =
      ReductionPlan::Create(SpecOf({"sum", "mean"}, ElementType::kInt32, largest)).value();
  EXPECT_EQ(full.node_bytes(), kMaxNodeBytes);
  const absl::Status status =
      ReductionPlan::Create(SpecOf({"sum", "mean", "bit_or"}, ElementType::kInt32, largest)).status();
  EXPECT_EQ(ErrorReason(status), "BAD_HEADER");
  EXPECT_THAT(std::string(status.message()), HasSubstr("matrix_shape"));
  EXPECT_THAT(ErrorDetails(status), Contains(Pair("field", "matrix_shape")));
  EXPECT_THAT(ErrorDetails(status), Contains(Pair("value", "32768")));
}

// No single operator is rejected because of the size of its states.
TEST(MatrixLimitsTest, EveryOperatorTakesTheLargestMatrices) {
  int taken = 0;
  for (int family = 0; family < static_cast<int>(OperatorNames().size()); ++family) {
    const std::string name(OperatorNames()[family]);
    for (int type = 0; type < kElementTypeCount; ++type) {
      const auto element_type = ElementTypeAt(type);
      if (!OperatorTakesMatrices(family, element_type) || name == "affine_compose") continue;
      EXPECT_TRUE(ReductionPlan::Create(SpecOf({name}, element_type, {32, 32})).ok())
          << name << " of " << ElementTypeName(element_type);
      ++taken;
    }
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace warpfold::kernels
