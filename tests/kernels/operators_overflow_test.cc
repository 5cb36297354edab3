// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares the columns "overflow" and "ties" of docs/operators.md with the code. Arrays that are too long to
// be built come from combining a state with itself: 60 times, to nearly the longest array that is allowed.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/operators/portable.h"
#include "kernels/operators/table.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"
#include "tests/kernels/operators_document.h"

namespace warpfold::kernels {
namespace {

using Error = Outcome::Error;
constexpr int kDoublings = 60;

// An array that repeats the same few elements, as one state.
class Repeated {
 public:
  Repeated(const OperatorCase& c, std::span<const std::byte> elements, bool wrap = false)
      : reduction_(ReductionPlan::Create(WithWrap(c.spec, wrap)).value()),
        op_(reduction_.operators()[0]),
        count_(elements.size() / reduction_.element_bytes()) {
    const PartialState partial = ReduceOnHost(reduction_, 0, elements);
    const auto bytes = OperatorState(partial, 0, 0);
    state_.assign(bytes.begin(), bytes.end());
    for (std::size_t i = 0; i < op_.entry->fields.size(); ++i) {
      if (op_.entry->fields[i] == std::string("sum")) result_ = static_cast<std::uint32_t>(i);
    }
  }
  Repeated(const OperatorCase& c, const std::vector<double>& numbers, bool wrap = false)
      : Repeated(c, c.Elements(numbers), wrap) {}

  void Append(const Repeated& other) {
    op_.entry->combine(op_.parameters, 1, state_.data(), other.state_.data(), state_.data());
    op_.entry->canonicalize(1, state_.data());
    count_ += other.count_;
  }
  void Double() { Append(Repeated(*this)); }

  // The first entry; if there are several fields, the one that can overflow.
  Outcome Finish() const { return FinishEntry(result_); }
  Outcome FinishEntry(std::uint32_t i) const {
    return op_.entry->finish(op_.parameters, state_.data(), count_, i);
  }
  bool IsDouble() const { return Finish().value.kind == Scalar::Kind::kDouble; }
  double Value() const { return Finish().value.double_value; }

 private:
  static ReductionSpec WithWrap(ReductionSpec spec, bool wrap) {
    spec.wrap_overflow = wrap;
    return spec;
  }

  ReductionPlan reduction_;
  BoundOperator op_;
  std::uint64_t count_;
  std::vector<std::byte> state_;
  std::uint32_t result_ = 0;
};

double LargestFinite(ElementType type) {
  if (type == ElementType::kFloat16) return 65504;
  if (type == ElementType::kBfloat16) return 0x1.fep127;
  return type == ElementType::kFloat32 ? std::numeric_limits<float>::max()
                                       : std::numeric_limits<double>::max();
}

// Arrays of the largest and smallest elements.
std::vector<Repeated> Extremes(const OperatorCase& c) {
  std::vector<Repeated> arrays;
  Random random;
  if (IsFloat(c.type)) {
    const double large = LargestFinite(c.type);
    for (const std::vector<double>& array :
         {std::vector{large}, {-large}, {large, large}, {large, -large}, {-large, large, large}}) {
      arrays.emplace_back(c, array);
    }
  } else {
    for (int i = 0; i < 20; ++i) arrays.emplace_back(c, RandomElements(c.type, 3, Flavour::kExtreme, random));
  }
  return arrays;
}

void ExpectNone(const Repeated& array) {
  EXPECT_EQ(array.Finish().error, Error::kNone);
  EXPECT_TRUE(!array.IsDouble() || std::isfinite(array.Value()));
}

void CheckCannot(const OperatorCase& c) {
  for (Repeated array : Extremes(c)) {
    for (int i = 0; i < kDoublings; ++i, array.Double()) ExpectNone(array);
  }
}

void CheckToInfinity(const OperatorCase& c) {
  const double large = LargestFinite(c.type);
  EXPECT_EQ(c.Value({large, large}).value().entries[0].double_value, HUGE_VAL);
  for (Repeated array : Extremes(c)) {
    for (int i = 0; i < kDoublings; ++i, array.Double()) EXPECT_GT(array.Value(), 0);  // and so it is not NaN
    EXPECT_EQ(array.Value(), HUGE_VAL);
  }
}

void CheckToInfinityAtTheEnd(const OperatorCase& c) {
  const double large = LargestFinite(c.type);
  const auto answer = [&c](const std::vector<double>& array) {
    return c.Value(array).value().entries[0].double_value;
  };
  EXPECT_EQ(answer({large, large, -large}), large);
  EXPECT_EQ(answer({large, large}), HUGE_VAL);
  EXPECT_EQ(answer({-large, -large, large, -large}), -HUGE_VAL);
  Repeated positive(c, {large});
  Repeated negative(c, {-large});
  for (int i = 0; i < kDoublings; ++i) {
    positive.Double();
    negative.Double();
  }
  EXPECT_EQ(positive.Value(), HUGE_VAL);
  positive.Append(negative);
  EXPECT_EQ(positive.Value(), 0);
}

void CheckToInfinityOrNan(const OperatorCase& c) {
  ExpectNone(Repeated(c, {1, 1}));
  const double large = LargestFinite(c.type);
  Repeated positive(c, {large, large});
  bool infinite = false;
  for (int i = 0; i < kDoublings; ++i, positive.Double()) infinite = infinite || positive.Value() == HUGE_VAL;
  EXPECT_TRUE(infinite);
  EXPECT_FALSE(std::isfinite(positive.Value()));
  Repeated negative(c, {-large, -large});
  for (int i = 0; i < kDoublings; ++i) negative.Double();
  Repeated both = positive;
  both.Append(negative);
  Repeated vanishing = positive;
  vanishing.Append(Repeated(c, {0}));
  EXPECT_TRUE(std::isnan(both.Value()) || std::isnan(vanishing.Value()));
}

// What an array's result becomes when the array is appended to itself, in unbounded integers.
Uint128 Twice(Uint128 x) { return x + x; }
Uint128 Squared(Uint128 x) { return x * x; }
using Step = Uint128 (*)(Uint128);

// Doubles an array, starting from its result, and compares with the exact value and with the wrapped one.
// `wraps`: the operator heeds the option. Returns whether the array has overflown.
bool CheckIntegers(const OperatorCase& c, const std::vector<double>& elements, Step step, bool wraps) {
  const bool is_signed = IsSigned(c.type);
  const Int128 largest = is_signed ? std::numeric_limits<std::int64_t>::max() : ~std::uint64_t{0};
  const Int128 smallest = is_signed ? std::numeric_limits<std::int64_t>::min() : 0;
  Repeated array(c, elements);
  Repeated wrapping(c, elements, wraps);
  EXPECT_EQ(array.Finish().error, Error::kNone);
  const std::uint64_t start = array.Finish().value.uint64_value;
  Int128 exact = is_signed ? Int128{static_cast<std::int64_t>(start)} : Int128{start};
  auto residue = static_cast<Uint128>(exact);
  bool fits = true;
  for (int i = 0; i < 64; ++i, array.Double(), wrapping.Double()) {
    if (fits) {
      const Outcome outcome = array.Finish();
      EXPECT_EQ(outcome.error, Error::kNone) << i;
      EXPECT_EQ(outcome.value.uint64_value, static_cast<std::uint64_t>(exact)) << i;
      exact = static_cast<Int128>(step(static_cast<Uint128>(exact)));
      fits = smallest <= exact && exact <= largest;
    } else {
      EXPECT_EQ(array.Finish().error, Error::kOverflow) << i;
    }
    if (wraps) {
      const unsigned unused = 64 - 8 * static_cast<unsigned>(ElementTypeBytes(c.type));
      const std::uint64_t high = static_cast<std::uint64_t>(residue) << unused;
      const std::uint64_t wrapped =
          is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(high) >> unused) : high >> unused;
      EXPECT_EQ(wrapping.Finish().error, Error::kNone);
      EXPECT_EQ(wrapping.Finish().value.uint64_value, wrapped) << i;
      residue = static_cast<std::uint64_t>(step(residue));
    } else if (!fits) {
      EXPECT_EQ(wrapping.Finish().error, array.Finish().error);
    }
  }
  return !fits;
}

Vocabulary::Check Integers(Step step, bool wraps) {
  return [=](const OperatorCase& c) {
    std::vector<double> elements = {1};
    if (c.type != ElementType::kBool) elements.push_back(3);
    if (IsSigned(c.type) && c.name != "max_subarray_sum") elements.insert(elements.end(), {-3, -1});
    bool overflows = false;
    for (const double x : elements) {
      for (const std::vector<double>& array : {std::vector{x}, {x, x, x}}) {
        overflows = CheckIntegers(c, array, step, wraps) || overflows;
      }
    }
    EXPECT_TRUE(overflows) << "arrays that never overflow show nothing";
  };
}

void CheckProduct(const OperatorCase& c) {
  if (c.type == ElementType::kBool) return CheckCannot(c);
  Integers(Squared, /*wraps=*/true)(c);
  Repeated array(c, {3});
  for (int i = 0; i < kDoublings; ++i) array.Double();
  EXPECT_EQ(array.Finish().error, Error::kOverflow);
  array.Append(Repeated(c, {0}));
  EXPECT_EQ(array.Finish().error, Error::kNone);
  EXPECT_EQ(array.Finish().value.uint64_value, 0u);
}

// Powers of the matrix of threes, or of the map x -> 3 x + 3.
void CheckWraps(const OperatorCase& c) {
  Repeated array(c, {3});
  std::uint64_t a = 3;
  std::uint64_t b = 3;
  for (int i = 0; i < kDoublings; ++i, array.Double()) {
    const auto as_element = [&c](std::uint64_t x) {
      if (ElementTypeBytes(c.type) == 8) return x;
      return IsSigned(c.type)
                 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(x)))
                 : static_cast<std::uint32_t>(x);
    };
    EXPECT_EQ(array.FinishEntry(0).error, Error::kNone);
    EXPECT_EQ(array.FinishEntry(0).value.uint64_value, as_element(a));
    EXPECT_EQ(array.FinishEntry(1).value.uint64_value, as_element(b));
    const bool product = c.name == "matrix_product";
    b = product ? 2 * a * a : a * b + b;
    a = product ? 2 * a * a : a * a;
  }
}

TEST(OperatorsDocumentTest, ColumnOverflow) {
  Vocabulary words({{"cannot", CheckCannot},
                    {"to infinity", CheckToInfinity},
                    {"to infinity if the whole sum is beyond", CheckToInfinityAtTheEnd},
                    {"to infinity or NaN", CheckToInfinityOrNan},
                    {"OUT_OF_RANGE or wraps", Integers(Twice, /*wraps=*/true)},
                    {"OUT_OF_RANGE", Integers(Twice, /*wraps=*/false)},
                    {"OUT_OF_RANGE or wraps, 0 if an element is", CheckProduct},
                    {"wraps", CheckWraps}});
  CheckColumn("overflow", words.AsCheck());
}

TEST(OperatorsDocumentTest, ColumnTies) {
  const auto no_index = [](const OperatorCase& c) {
    const absl::StatusOr<OperatorValue> value = c.Value({1, 0, 1, 0});
    ASSERT_TRUE(value.ok());
    EXPECT_FALSE(value->index.has_value() || value->end_index.has_value());
  };
  Vocabulary words({{"none", no_index},
                    {"equal bits",
                     [=](const OperatorCase& c) {
                       no_index(c);
                       EXPECT_EQ(c.Answer({1, 0, 1, 0}), c.Answer({0, 1, 0, 1}));
                     }},
                    {"first",
                     [](const OperatorCase& c) {
                       const bool max = absl::EndsWith(c.name, "max");
                       EXPECT_TRUE(absl::EndsWith(c.Answer({1, 0, 1, 0}), max ? " at 0" : " at 1"));
                       EXPECT_TRUE(absl::EndsWith(c.Answer(std::vector<double>(9000, 1)), " at 0"));
                     }},
                    {"first, then shortest", [](const OperatorCase& c) {
                       EXPECT_TRUE(absl::EndsWith(c.Answer({0, 1, 0}), " at 0 to 2"));
                       EXPECT_TRUE(absl::EndsWith(c.Answer({0, 0}), " at 0 to 1"));
                       if (!IsFloat(c.type) && !IsSigned(c.type)) return;
                       EXPECT_TRUE(absl::EndsWith(c.Answer({1, -1, 1}), " at 0 to 1"));
                       EXPECT_TRUE(absl::EndsWith(c.Answer({-1, 0, 2, 0, -2, 2}), " at 1 to 3"));
                     }}});
  CheckColumn("ties", words.AsCheck());
}

}  // namespace
}  // namespace warpfold::kernels
