// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the options that an operator's entry claims to follow with what its functions do, for every
// operator and element type; also the refusals that use the entries.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/error.h"
#include "kernels/operators/table.h"
#include "kernels/segment_out.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/operators_document.h"
#include "tests/kernels/random_array.h"

namespace warpfold::kernels {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::uint64_t kElements = 7;

Bytes StateOf(const ReductionPlan& reduction, std::span<const std::byte> elements) {
  const PartialState state = ReduceOnHost(reduction, 0, elements);
  const auto bytes = OperatorState(state, 0, 0);
  return {bytes.begin(), bytes.end()};
}

// The results of two adjacent states, computed by the operator with these parameters.
std::string Results(const BoundOperator& op, const OperatorParameters& parameters, const Bytes& a,
                    const Bytes& b) {
  Bytes both(a.size());
  op.entry->combine(parameters, op.states, a.data(), b.data(), both.data());
  op.entry->canonicalize(op.states, both.data());
  std::string text;
  const std::size_t results = op.entry->fields.empty() ? op.states : op.entry->fields.size();
  for (std::uint32_t i = 0; i < results; ++i) {
    const Outcome outcome = op.entry->finish(parameters, both.data(), 2 * kElements, i);
    absl::StrAppend(&text, static_cast<int>(outcome.error), " ", ColumnBits(outcome.value), " ",
                    outcome.index, "; ");
  }
  return text;
}

// Whether any of many states has other results with these parameters than without.
bool ChangeResults(const OperatorParameters& parameters, const ReductionPlan& reduction) {
  Random random;
  const BoundOperator& op = reduction.operators()[0];
  for (const Flavour flavour : {Flavour::kTame, Flavour::kUnits, Flavour::kExtreme, Flavour::kBits}) {
    for (int i = 0; i < 20; ++i) {
      const Bytes a = StateOf(reduction, RandomArray(reduction, kElements, flavour, random));
      const Bytes b = StateOf(reduction, RandomArray(reduction, kElements, flavour, random));
      if (Results(op, parameters, a, b) != Results(op, {}, a, b)) return true;
    }
  }
  return false;
}

// The case's reduction, and one of matrices that are too large for an operator that knows their dimension.
std::vector<ReductionPlan> ReductionsOf(const OperatorCase& c) {
  std::vector<ReductionPlan> reductions = {ReductionPlan::Create(c.spec).value()};
  ReductionSpec large = c.spec;
  large.shape = {kMaxFixedDimension + 1, kMaxFixedDimension + 1};
  if (const auto reduction = ReductionPlan::Create(large); reduction.ok()) reductions.push_back(*reduction);
  return reductions;
}

TEST(OperatorOptionsTest, ModulusAndDdofChangeTheResultsOfThoseThatTakeThem) {
  ForEachOperator([](const OperatorCase& c, const DocumentRow&) {
    for (const ReductionPlan& reduction : ReductionsOf(c)) {
      const OperatorEntry& entry = *reduction.operators()[0].entry;
      EXPECT_EQ(ChangeResults({.modulus = 7}, reduction), entry.takes_modulus);
      EXPECT_EQ(ChangeResults({.ddof = 1}, reduction), entry.takes_ddof);
    }
  });
}

// Whether an array of equal elements, doubled often enough, overflows.
bool Overflows(const OperatorParameters& parameters, const ReductionPlan& reduction,
               std::span<const std::byte> element) {
  const BoundOperator& op = reduction.operators()[0];
  Bytes state = StateOf(reduction, element);
  const std::size_t results = op.entry->fields.empty() ? op.states : op.entry->fields.size();
  std::uint64_t count = 1;
  for (int doubling = 0; doubling <= 64; ++doubling) {  // a sum of ones is beyond uint64 then
    for (std::uint32_t i = 0; i < results; ++i) {
      const Outcome outcome = op.entry->finish(parameters, state.data(), count, i);
      if (outcome.error == Outcome::Error::kOverflow) return true;
    }
    op.entry->combine(parameters, op.states, state.data(), state.data(), state.data());
    op.entry->canonicalize(op.states, state.data());
    if (doubling < 63) count += count;
  }
  return false;
}

TEST(OperatorOptionsTest, OverflowsWrapUnlessTheEntrySaysWhyNot) {
  int overflows = 0;
  ForEachOperator([&overflows](const OperatorCase& c, const DocumentRow&) {
    const ReductionPlan reduction = ReductionPlan::Create(c.spec).value();
    bool overflows_sometimes = false;
    bool overflows_anyway = false;
    for (const double x : {1.0, 3.0, -1.0}) {
      const std::vector<std::byte> element = c.Elements({x});
      overflows_sometimes = overflows_sometimes || Overflows({}, reduction, element);
      overflows_anyway = overflows_anyway || Overflows({.wrap_overflow = true}, reduction, element);
    }
    // Products of bool have `wrap`, too, but stay within 0 and 1.
    const bool is_tame = c.spec.operators[0] == "product" && c.type == ElementType::kBool;
    EXPECT_EQ(overflows_sometimes || is_tame, reduction.operators()[0].entry->may_overflow);
    overflows += overflows_sometimes;
    EXPECT_EQ(overflows_anyway, reduction.operators()[0].entry->never_wraps != nullptr);
  });
  EXPECT_GT(overflows, 0);
}

TEST(OperatorOptionsTest, NanIsIgnoredOrRefused) {
  ForEachOperator([](const OperatorCase& c, const DocumentRow&) {
    ReductionSpec spec = c.spec;
    spec.ignore_nan = true;
    const OperatorRow& row = OperatorTable()[c.op];
    const int type = IndexOf(c.type);
    const OperatorEntry& entry =
        spec.shape.is_matrix() ? row.whole[type][WholeIndex(spec.shape)] : row.scalar[type][1];
    ASSERT_EQ(ReductionPlan::Create(spec).ok(), entry.ignores_nan);
    if (!IsFloat(c.type)) return;
    EXPECT_FALSE(row.scalar[type][0].ignores_nan);
    if (!entry.ignores_nan) return;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const OperatorValue among = c.Value({1, nan, 3, nan}, /*ignore_nan=*/true).value();
    const OperatorValue without = c.Value({1, 3}).value();
    for (std::size_t i = 0; i < without.entries.size(); ++i) {
      EXPECT_EQ(ColumnBits(among.entries[i]), ColumnBits(without.entries[i]));
    }
  });
}

ReductionSpec SpecOf(std::vector<std::string> operators, ElementType type, ElementShape shape = {}) {
  ReductionSpec spec;
  spec.operators = std::move(operators);
  spec.element_type = type;
  spec.shape = shape;
  return spec;
}

std::string RefusalOf(const ReductionSpec& spec) {
  const absl::Status status = ReductionPlan::Create(spec).status();
  EXPECT_EQ(ErrorReason(status), status.ok() ? "" : "BAD_HEADER");
  return std::string(status.message());
}

// One operator that takes a parameter is enough, and so is one that does not follow a policy.
TEST(OperatorOptionsTest, RefusalsNameTheOperators) {
  ReductionSpec spec = SpecOf({"sum"}, ElementType::kInt32);
  spec.ddof = 1;
  EXPECT_EQ(RefusalOf(spec), "ddof: only for variance, stddev and describe");
  spec.operators = {"sum", "stddev"};
  EXPECT_EQ(RefusalOf(spec), "");

  spec = SpecOf({"sum"}, ElementType::kInt32);
  spec.modulus = 7;
  EXPECT_EQ(RefusalOf(spec), "modulus: only for matrix_product and affine_compose over integers");
  spec = SpecOf({"matrix_product"}, ElementType::kFloat32, {2, 2});
  spec.modulus = 7;
  EXPECT_EQ(RefusalOf(spec), "modulus: only for matrix_product and affine_compose over integers");
  spec = SpecOf({"sum", "matrix_product"}, ElementType::kUint32, {2, 2});
  spec.modulus = 7;
  EXPECT_EQ(RefusalOf(spec), "");

  spec = SpecOf({"sum", "matrix_product"}, ElementType::kFloat32, {2, 2});
  spec.ignore_nan = true;
  EXPECT_EQ(RefusalOf(spec), "nan_policy: matrix_product and affine_compose do not ignore NaN");

  spec = SpecOf({"sum", "max_subarray_sum"}, ElementType::kInt64);
  spec.wrap_overflow = true;
  EXPECT_EQ(RefusalOf(spec),
            "overflow_policy: max_subarray_sum does not wrap: sums modulo 2^bits have no order");
  spec.element_type = ElementType::kFloat64;
  EXPECT_EQ(RefusalOf(spec), "");
}

// Those of integers wrap; results modulo a number have no overflow, and floats report none.
TEST(OperatorOptionsTest, AnOverflowThatNobodyReportsCannotBeAskedFor) {
  for (ReductionSpec spec : {SpecOf({"matrix_product"}, ElementType::kInt32, {2, 2}),
                             SpecOf({"affine_compose"}, ElementType::kInt32, {1, 2})}) {
    EXPECT_EQ(RefusalOf(spec), "");
    spec.report_overflow = true;
    EXPECT_EQ(
        RefusalOf(spec),
        "overflow_policy: matrix_product and affine_compose over integers wrap: they report no overflow");
    spec.modulus = 7;
    EXPECT_EQ(RefusalOf(spec), "");
    spec.modulus.reset();
    spec.element_type = ElementType::kFloat32;
    EXPECT_EQ(RefusalOf(spec), "");
  }
  ReductionSpec spec = SpecOf({"sum", "min"}, ElementType::kInt32);
  spec.report_overflow = true;
  EXPECT_EQ(RefusalOf(spec), "");
}

TEST(OperatorOptionsTest, TheLargestModulusIsThatOfTheElementType) {
  const struct {
    ElementType type;
    std::uint64_t largest;
  } cases[] = {{ElementType::kInt32, 0x7fffffff},
               {ElementType::kInt64, 0x7fffffffffffffff},
               {ElementType::kUint32, 0xffffffff},
               {ElementType::kUint64, ~std::uint64_t{0}}};
  for (const auto& c : cases) {
    ReductionSpec spec = SpecOf({"affine_compose"}, c.type, {1, 2});
    for (const std::uint64_t modulus : {std::uint64_t{2}, c.largest}) {
      spec.modulus = modulus;
      EXPECT_EQ(RefusalOf(spec), "");
    }
    for (const std::uint64_t modulus : {std::uint64_t{0}, std::uint64_t{1}, c.largest + 1}) {
      spec.modulus = modulus;  // for uint64 the last one is 0, too
      EXPECT_EQ(RefusalOf(spec), absl::StrCat("modulus: must be 2 to ", c.largest));
    }
  }
}

}  // namespace
}  // namespace warpfold::kernels
