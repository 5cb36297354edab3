// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the columns of docs/operators.md about NaN, infinities and signed zeros with the code.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "kernels/error.h"
#include "kernels/operators/portable.h"
#include "kernels/segment_out.h"
#include "tests/kernels/operators_document.h"

namespace warpfold::kernels {
namespace {

using Doubles = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A double in the form in which Answer has it, `entries` times.
std::string Text(double x, std::size_t entries = 1) {
  const std::string one = absl::StrCat("double 0x", absl::Hex(BitCast<std::uint64_t>(x), absl::kZeroPad16));
  return absl::StrJoin(std::vector<std::string>(entries, one), " ");
}

// Every entry of the result is x, to the bit.
void ExpectAll(double x, const OperatorCase& c, const Doubles& array, bool ignore_nan = false) {
  const absl::StatusOr<OperatorValue> value = c.Value(array, ignore_nan);
  ASSERT_TRUE(value.ok()) << value.status();
  const std::string answer = c.Answer(array, ignore_nan);
  const std::string wanted = Text(CanonicalNan(x), value->entries.size());
  EXPECT_TRUE(answer == wanted || absl::StartsWith(answer, wanted + " at ")) << answer << ", not " << wanted;
}

void ExpectSameAnswer(const OperatorCase& c, const Doubles& a, const Doubles& b, bool ignore_nan = false) {
  EXPECT_EQ(c.Answer(a, ignore_nan), c.Answer(b, ignore_nan));
}

// Each field is as the operator of its name has it; `count`, for which there is no operator, is found by
// counting.
void CheckFields(const OperatorCase& c) {
  const std::vector<Doubles> arrays = {{1},
                                       {1, 2, 0.5},
                                       {kNan},
                                       {kNan, kNan, kNan},
                                       {1, kNan, 3},
                                       {kInf, 1, 2},
                                       {-kInf, kInf},
                                       {kInf, kNan, -kInf, 2},
                                       {0.0, -0.0},
                                       {-0.0, -0.0},
                                       {-0.0},
                                       {-0.0, kNan, -0.0},
                                       {0.0, kNan},
                                       {-0.0, kNan, 0.0},
                                       {-1, 1, -0.0},
                                       {-0.0, kNan, -1},
                                       {3, 1, 3, 1},
                                       {-1, -1},
                                       {},
                                       Doubles(3000, 0.5)};
  for (const Doubles& array : arrays) {
    for (const bool ignore_nan : {false, true}) {
      std::string wanted;
      for (const char* const field : {"count", "min", "max", "sum", "mean", "variance"}) {
        OperatorCase alone = c;
        alone.name = field;
        alone.spec.operators = {field};
        std::size_t count = 0;
        for (const double x : array) count += !ignore_nan || x == x;
        const bool counting = alone.name == "count";
        const std::string answer =
            counting ? absl::StrCat("uint64 ", count) : alone.Answer(array, ignore_nan);
        absl::StrAppend(&wanted, wanted.empty() ? "" : " ", answer);
      }
      EXPECT_EQ(c.Answer(array, ignore_nan), array.empty() ? "EMPTY_ARRAY" : wanted);
    }
  }
}

// Over x and 1, in either order, the result is one of the two unchanged, and always the one at the same
// place.
void CheckAnyElement(const OperatorCase& c, double x) {
  const bool x_first = c.Answer({x, 1}) == Text(x);
  ExpectAll(x_first ? x : 1, c, {x, 1});
  ExpectAll(x_first ? 1 : x, c, {1, x});
  ExpectAll(x, c, {x});
}

TEST(OperatorsDocumentTest, ColumnNan) {
  Vocabulary words({{"NaN",
                     [](const OperatorCase& c) {
                       for (const Doubles& array :
                            {Doubles{kNan}, {-kNan}, {1, kNan}, {kNan, 1}, {kInf, kNan}, {kNan, -kInf}}) {
                         ExpectAll(kNan, c, array);
                       }
                     }},
                    {"the first NaN",
                     [](const OperatorCase& c) {
                       EXPECT_EQ(c.Answer({1, kNan, -kInf, kNan, kInf}), Text(kNan) + " at 1");
                       EXPECT_EQ(c.Answer({-kNan, kNan}), Text(kNan) + " at 0");
                     }},
                    {"not zero",
                     [](const OperatorCase& c) {
                       ExpectSameAnswer(c, {kNan}, {1});
                       ExpectSameAnswer(c, {0, -kNan, 0}, {0, 1, 0});
                     }},
                    {"as any element",
                     [](const OperatorCase& c) {
                       CheckAnyElement(c, kNan);
                       ExpectAll(kNan, c, {-kNan});
                     }},
                    {"as its fields alone", CheckFields}});
  CheckFloatColumn("NaN", words.AsCheck());
}

TEST(OperatorsDocumentTest, ColumnNanIgnored) {
  const auto counts_as = [](double x) {
    return [x](const OperatorCase& c) {
      EXPECT_EQ(c.Answer({kNan}, true), c.Answer({x}));
      EXPECT_EQ(c.Answer({-2, kNan, 3, kNan}, true), c.Answer({-2, x, 3, x}));
      EXPECT_EQ(c.Answer({-0.0, kNan}, true), c.Answer({-0.0, x}));
    };
  };
  const auto expect_skipped = [](const OperatorCase& c) {
    EXPECT_EQ(c.Answer({1, 3, kNan, kNan}, true), c.Answer({1, 3}));
    EXPECT_EQ(c.Answer({-1, -3, kNan}, true), c.Answer({-1, -3}));
    EXPECT_EQ(c.Answer({-0.0, kNan}, true), c.Answer({-0.0}));
    const absl::StatusOr<OperatorValue> among = c.Value({kNan, -1, kNan, -3, kNan}, true);
    const absl::StatusOr<OperatorValue> without = c.Value({-1, -3});
    ASSERT_TRUE(among.ok() && without.ok());
    for (std::size_t i = 0; i < without->entries.size(); ++i) {
      EXPECT_EQ(ColumnBits(among->entries[i]), ColumnBits(without->entries[i]));
    }
    // Indices count NaN.
    ASSERT_EQ(among->index.has_value(), without->index.has_value());
    EXPECT_EQ(among->index.value_or(1), 2 * without->index.value_or(0) + 1);
    EXPECT_EQ(among->end_index.value_or(0), 2 * without->end_index.value_or(0));
  };
  Vocabulary words({{"counts as 0.0", counts_as(0.0)},
                    {"counts as 1.0", counts_as(1.0)},
                    {"skipped",
                     [=](const OperatorCase& c) {
                       expect_skipped(c);
                       EXPECT_EQ(c.Answer({kNan, kNan}, true), c.Answer({}));
                     }},
                    {"skipped, NaN if nothing is left",
                     [=](const OperatorCase& c) {
                       expect_skipped(c);
                       ExpectAll(kNan, c, {kNan, -kNan}, true);
                     }},
                    {"skipped, EMPTY_ARRAY if nothing is left",
                     [=](const OperatorCase& c) {
                       expect_skipped(c);
                       EXPECT_EQ(c.Answer({kNan, -kNan}, true), "EMPTY_ARRAY");
                     }},
                    {"not zero",
                     [](const OperatorCase& c) {
                       for (const Doubles& array : {Doubles{kNan}, {kNan, 1}, {kNan, 0}}) {
                         EXPECT_EQ(c.Answer(array, true), c.Answer(array));
                       }
                     }},
                    {"refused",
                     [](const OperatorCase& c) {
                       ReductionSpec spec = c.spec;
                       spec.ignore_nan = true;
                       EXPECT_EQ(ErrorReason(ReductionPlan::Create(spec).status()), "BAD_HEADER");
                     }},
                    {"as its fields alone", CheckFields}});
  CheckFloatColumn("NaN ignored", words.AsCheck());
}

// Both infinities and a number, in every order.
void CheckOrdered(const OperatorCase& c) {
  const bool largest = absl::EndsWith(c.name, "max");
  EXPECT_TRUE(largest || absl::EndsWith(c.name, "min"));
  for (const Doubles& array :
       {Doubles{1, kInf, -kInf}, {kInf, 1, -kInf}, {-kInf, kInf, 1}, {-kInf, 1, kInf}}) {
    const absl::StatusOr<OperatorValue> value = c.Value(array);
    ASSERT_TRUE(value.ok());
    if (c.name == "minmax") {
      EXPECT_EQ(c.Answer(array), Text(-kInf) + " " + Text(kInf));
      continue;
    }
    EXPECT_EQ(value->entries[0].double_value, largest ? kInf : -kInf);
    if (!value->index.has_value()) continue;
    EXPECT_EQ(array[*value->index], largest ? kInf : -kInf);
  }
}

TEST(OperatorsDocumentTest, ColumnInfinity) {
  const auto kept = [](const OperatorCase& c) {
    ExpectAll(kInf, c, {kInf, 1});
    ExpectAll(kInf, c, {2, kInf});
    ExpectAll(-kInf, c, {-kInf});
  };
  Vocabulary words({{"kept, inf - inf is NaN",
                     [=](const OperatorCase& c) {
                       kept(c);
                       ExpectAll(kNan, c, {kInf, 1, -kInf});
                     }},
                    {"kept, inf x 0 is NaN",
                     [=](const OperatorCase& c) {
                       kept(c);
                       ExpectAll(kNan, c, {kInf, 0});
                       ExpectAll(kInf, c, {kInf, kInf});
                     }},
                    {"its magnitude",
                     [](const OperatorCase& c) {
                       ExpectAll(kInf, c, {-kInf, 1});
                       ExpectAll(kInf, c, {kInf, -kInf});
                     }},
                    {"NaN",
                     [](const OperatorCase& c) {
                       for (const Doubles& array : {Doubles{kInf}, {-kInf, 1}, {1, 1, kInf}, {kInf, -kInf}}) {
                         ExpectAll(kNan, c, array);
                       }
                     }},
                    {"inf is inf, -inf adds nothing",
                     [](const OperatorCase& c) {
                       ExpectAll(kInf, c, {1, kInf, -kInf, kInf});
                       ExpectSameAnswer(c, {1, -kInf, -kInf}, {1});
                       ExpectAll(-kInf, c, {-kInf, -kInf});
                     }},
                    {"ordered as a number", CheckOrdered},
                    {"not zero",
                     [](const OperatorCase& c) {
                       ExpectSameAnswer(c, {-kInf}, {1});
                       ExpectSameAnswer(c, {0, kInf, 0}, {0, 1, 0});
                     }},
                    {"as any element",
                     [](const OperatorCase& c) {
                       CheckAnyElement(c, kInf);
                       CheckAnyElement(c, -kInf);
                     }},
                    {"as its fields alone", CheckFields}});
  CheckFloatColumn("infinity", words.AsCheck());
}

void CheckZerosOrdered(const OperatorCase& c) {
  EXPECT_TRUE(c.name == "min" || c.name == "max" || c.name == "minmax");
  for (const Doubles& array : {Doubles{0.0, -0.0}, {-0.0, 0.0}, {0.0, -0.0, 0.0}}) {
    const std::string wanted = c.name == "minmax" ? Text(-0.0) + " " + Text(0.0)
                               : c.name == "min"  ? Text(-0.0)
                                                  : Text(0.0);
    EXPECT_EQ(c.Answer(array), wanted);
  }
}

TEST(OperatorsDocumentTest, ColumnSignedZero) {
  Vocabulary words({{"-0.0 if all are",
                     [](const OperatorCase& c) {
                       ExpectAll(-0.0, c, {-0.0});
                       ExpectAll(-0.0, c, Doubles(5000, -0.0));
                       for (const Doubles& array : {Doubles{-0.0, 0.0}, {0.0, -0.0}, {1, -1}, {0.0}}) {
                         ExpectAll(0.0, c, array);
                       }
                     }},
                    {"the product of the signs",
                     [](const OperatorCase& c) {
                       ExpectAll(0.0, c, {-0.0, -1});
                       ExpectAll(-0.0, c, {0.0, 3, -1});
                     }},
                    {"-0.0 below 0.0", CheckZerosOrdered},
                    {"equal",
                     [](const OperatorCase& c) {
                       EXPECT_TRUE(absl::StartsWith(c.Answer({0.0, -0.0}), Text(0.0) + " at 0"));
                       EXPECT_TRUE(absl::StartsWith(c.Answer({-0.0, 0.0}), Text(-0.0) + " at 0"));
                     }},
                    {"zero",
                     [](const OperatorCase& c) {
                       ExpectSameAnswer(c, {-0.0}, {0.0});
                       ExpectSameAnswer(c, {1, -0.0}, {1, 0.0});
                     }},
                    {"answers 0.0",
                     [](const OperatorCase& c) {
                       ExpectAll(0.0, c, {-0.0});
                       ExpectAll(0.0, c, {0.0});
                       ExpectSameAnswer(c, {-0.0, 0.0}, {0.0, 0.0});
                     }},
                    {"as any element",
                     [](const OperatorCase& c) {
                       CheckAnyElement(c, -0.0);
                       CheckAnyElement(c, 0.0);
                     }},
                    {"as IEEE 754 adds and multiplies",
                     [](const OperatorCase& c) {
                       ExpectAll(-0.0, c, {-0.0});
                       ExpectAll(-0.0, c, {1, -0.0});
                       ExpectAll(-0.0, c, {0.0, -0.0});
                       ExpectAll(0.0, c, {-0.0, -0.0});
                     }},
                    {"as its fields alone", CheckFields}});
  CheckFloatColumn("signed zero", words.AsCheck());
}

}  // namespace
}  // namespace warpfold::kernels
