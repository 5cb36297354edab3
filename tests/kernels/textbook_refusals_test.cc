// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of the textbook that need no GPU: names, what each algorithm rejects, and states that are not
// canonical.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/algorithm.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/error.h"
#include "kernels/partial_state.h"
#include "kernels/reduction.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/subjects.h"

namespace warpfold::kernels {
namespace {

ReductionSpec SpecOf(const std::string& op, ElementType type, Algorithm algorithm) {
  ReductionSpec spec;
  spec.operators = {op};
  spec.element_type = type;
  spec.algorithm = algorithm;
  return spec;
}

TEST(AlgorithmTest, NamesAreDistinctAndFindTheirAlgorithm) {
  std::set<std::string> names;
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    EXPECT_TRUE(names.insert(AlgorithmName(algorithm)).second);
    EXPECT_EQ(AlgorithmByName(AlgorithmName(algorithm)), algorithm);
  }
  EXPECT_EQ(AlgorithmName(Algorithm::kAuto), std::string("auto"));
  EXPECT_EQ(AlgorithmName(Algorithm::kCooperativeGrid), std::string("cooperative_grid"));
  EXPECT_EQ(AlgorithmByName("quantum"), std::nullopt);
  EXPECT_EQ(AlgorithmByName(""), std::nullopt);
}

TEST(AlgorithmTest, OrderIsKeptByThese) {
  std::vector<std::string> ordered;
  for (const AlgorithmFacts& facts : kAlgorithms) {
    if (facts.keeps_order) ordered.push_back(facts.name);
  }
  EXPECT_THAT(ordered, testing::ElementsAre("auto", "single_block_ordered", "last_block_ordered",
                                            "warp_shared_ordered", "warp_shared_padded", "warp_shuffle",
                                            "interleaved_modulo", "interleaved_strided"));
}

bool IsOfServedType(const ReductionSpec& spec) {
  return spec.element_type == ElementType::kInt32 || spec.element_type == ElementType::kInt64 ||
         spec.element_type == ElementType::kFloat32 || spec.element_type == ElementType::kFloat64;
}

// Every subject is served, or rejected for the only possible reason.
TEST(AlgorithmTest, ServesFourOperatorsOverFourTypes) {
  int served_count = 0;
  for (int i = 1; i < kAlgorithmCount; ++i) {
    for (const Subject& subject : AllSubjects()) {
      ReductionSpec spec = subject.spec;
      spec.algorithm = static_cast<Algorithm>(i);
      const absl::StatusOr<ReductionPlan> reduction = ReductionPlan::Create(spec);
      const std::string& op = spec.operators[0];
      const bool extremum = op == "min" || op == "max";
      const bool of_one_warp = std::string(AlgorithmName(spec.algorithm)).starts_with("warp_shared");
      const bool scalar = !spec.shape.is_matrix() && (op == "sum" || (extremum && !of_one_warp));
      const bool matrix = spec.shape == ElementShape{2, 2} && op == "matrix_product";
      const bool served = (scalar || matrix) && IsOfServedType(spec) && !spec.ignore_nan &&
                          (subject.commutative || KeepsOrder(spec.algorithm));
      ASSERT_EQ(reduction.ok(), served) << AlgorithmName(spec.algorithm) << " of " << subject.name;
      served_count += served;
      if (served) continue;
      EXPECT_EQ(reduction.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(ErrorReason(reduction.status()), "UNSUPPORTED_ALGORITHM");
      EXPECT_THAT(ErrorDetails(reduction.status()),
                  testing::Contains(testing::Pair("algorithm", AlgorithmName(spec.algorithm))));
    }
  }
  // Sums with 19 algorithms, extrema with 15 and products with seven, over four types; also wrapped and with
  // a modulus.
  EXPECT_GE(served_count, 4 * (19 + 2 * 15 + 7));
}

TEST(AlgorithmTest, ARefusalNamesWhatIsServed) {
  const absl::Status status =
      ReductionPlan::Create(SpecOf("variance", ElementType::kInt32, Algorithm::kLastBlock)).status();
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::StartsWith("algorithm last_block does not serve variance: "),
                             testing::HasSubstr("sum, min and max of scalars and matrix_product of 2 x 2"),
                             testing::HasSubstr("int32, int64, float32 and float64")));
}

TEST(AlgorithmTest, OfIntegersIgnoringNanChangesNothing) {
  ReductionSpec spec = SpecOf("sum", ElementType::kInt32, Algorithm::kLastBlock);
  spec.ignore_nan = true;
  EXPECT_TRUE(ReductionPlan::Create(spec).ok());
  spec.element_type = ElementType::kFloat32;
  EXPECT_EQ(ErrorReason(ReductionPlan::Create(spec).status()), "UNSUPPORTED_ALGORITHM");
}

TEST(AlgorithmTest, OneOperatorThatIsNotServedIsEnough) {
  ReductionSpec spec = SpecOf("matrix_product", ElementType::kInt32, Algorithm::kWarpShuffle);
  spec.shape = {2, 2};
  EXPECT_TRUE(ReductionPlan::Create(spec).ok());
  spec.operators.push_back("sum");
  EXPECT_EQ(ErrorReason(ReductionPlan::Create(spec).status()), "UNSUPPORTED_ALGORITHM");
}

TEST(AlgorithmTest, TheCpuHasNone) {
  const auto backend = cpu::MakeCpuBackend({.slots = 1, .slot_bytes = 64 << 10, .threads = 1}).value();
  EXPECT_TRUE(backend->Supports(Algorithm::kAuto));
  for (int i = 1; i < kAlgorithmCount; ++i) EXPECT_FALSE(backend->Supports(static_cast<Algorithm>(i)));
}

// The states of sections, as a device would return them, made by the host.
PartialState StateOf(const ReductionPlan& reduction, std::uint64_t first, std::span<const std::byte> data) {
  return ReduceOnHost(reduction, first, data);
}

TEST(NamedStateTest, HasNoNodesAndAppendsInArrayOrder) {
  ReductionSpec spec = SpecOf("matrix_product", ElementType::kInt32, Algorithm::kLastBlockOrdered);
  spec.shape = {2, 2};
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  spec.algorithm = Algorithm::kAuto;
  const ReductionPlan canonical = ReductionPlan::Create(spec).value();
  Random random;
  const std::uint64_t piece_bytes = 3 * reduction.leaf_bytes();
  std::vector<std::byte> data = RandomElements(spec.element_type, 4 * 1000, Flavour::kTame, random);
  MakeUnitLike(spec.element_type, 2, data);
  PartialState whole(reduction, 0);
  for (std::uint64_t begin = 0; begin < data.size(); begin += piece_bytes) {
    const auto piece = std::span(data).subspan(begin, std::min(piece_bytes, data.size() - begin));
    ASSERT_TRUE(whole.Append(StateOf(reduction, begin / reduction.element_bytes(), piece)).ok());
    ASSERT_TRUE(whole.nodes().empty());
  }
  EXPECT_EQ(whole.element_count(), 1000u);
  EXPECT_EQ(Describe(whole.Finish(0)), Describe(ReduceOnHost(canonical, 0, data).Finish(0)));
}

TEST(NamedStateTest, AppendsOnlyWhatFits) {
  const ReductionPlan named =
      ReductionPlan::Create(SpecOf("sum", ElementType::kInt32, Algorithm::kLastBlock)).value();
  const ReductionPlan other =
      ReductionPlan::Create(SpecOf("sum", ElementType::kInt32, Algorithm::kTwoLaunch)).value();
  const ReductionPlan canonical =
      ReductionPlan::Create(SpecOf("sum", ElementType::kInt32, Algorithm::kAuto)).value();
  const std::vector<std::byte> leaf(named.leaf_bytes());
  PartialState state = StateOf(named, 0, leaf);
  EXPECT_EQ(ErrorReason(state.Append(StateOf(other, 1024, leaf))), "BAD_STATE");
  EXPECT_EQ(ErrorReason(state.Append(StateOf(canonical, 1024, leaf))), "BAD_STATE");
  EXPECT_EQ(ErrorReason(state.Append(StateOf(named, 2048, leaf))), "BAD_STATE");
  EXPECT_TRUE(state.Append(StateOf(named, 1024, leaf)).ok());
  EXPECT_EQ(state.element_count(), 2048u);
}

TEST(NamedStateTest, OfNothingFinishesAsTheCanonicalOne) {
  for (const std::string op : {"sum", "min"}) {
    const ReductionSpec spec = SpecOf(op, ElementType::kFloat32, Algorithm::kGridStride);
    const PartialState state(ReductionPlan::Create(spec).value(), 0);
    const PartialState expected(
        ReductionPlan::Create(SpecOf(op, ElementType::kFloat32, Algorithm::kAuto)).value(), 0);
    EXPECT_EQ(Describe(state.Finish(0)), Describe(expected.Finish(0)));
  }
}

TEST(NamedStateTest, DoesNotComeFromTheWire) {
  const ReductionPlan named =
      ReductionPlan::Create(SpecOf("sum", ElementType::kInt32, Algorithm::kLastBlock)).value();
  const absl::StatusOr<PartialState> state = PartialState::Create(named, 0, 0, {}, {}, {});
  EXPECT_EQ(ErrorReason(state.status()), "BAD_HEADER");
}

}  // namespace
}  // namespace warpfold::kernels
