// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// The variance is within 1e-14 of the exact one, relative to it, whatever the mean and however the array is
// cut. The oracle works in binary128 and from the exact elements: its rounding errors are below 1e-25.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/geometry.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"
#include "kernels/partial_state.h"
#include "tests/kernels/elements.h"
#include "tests/kernels/expect_same.h"

namespace warpfold::kernels {
namespace {

__extension__ using Binary128 = __float128;

constexpr double kBound = 1e-14;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
Binary128 Exact(T x) {
  return ValueOf(x);
}
template <class T>
requires(IntegerElement<T> && sizeof(T) == 8) Binary128 Exact(T x) {
  return static_cast<Binary128>(x);  // binary128 holds 113 bits
}

// The sum of squared deviations from the mean.
template <class T>
Binary128 ExactDeviations(std::span<const T> array) {
  const auto count = static_cast<Binary128>(array.size());
  const Binary128 origin = Exact(array[0]);
  Binary128 sum = 0;
  for (const T x : array) sum += Exact(x) - origin;
  const Binary128 mean = sum / count;
  Binary128 squares = 0;
  Binary128 rest = 0;  // for the part that rounding took from the mean
  for (const T x : array) {
    const Binary128 deviation = (Exact(x) - origin) - mean;
    squares += deviation * deviation;
    rest += deviation;
  }
  return squares - rest * rest / count;
}

template <class T>
PartialState Reduced(const ReductionPlan& reduction, std::span<const T> array, std::uint64_t first,
                     std::uint64_t count) {
  return ReduceOnHost(reduction, first, std::as_bytes(array.subspan(first, count)));
}

// The array's reduction from ranges that end where `cut` says, relative to where they begin.
template <class T>
PartialState ReducedInPieces(const ReductionPlan& reduction, std::span<const T> array,
                             const std::function<std::uint64_t()>& leaves) {
  PartialState state(reduction, 0);
  for (std::uint64_t first = 0; first < array.size();) {
    const std::uint64_t count =
        std::min<std::uint64_t>(array.size() - first, leaves() * reduction.leaf_elements());
    EXPECT_TRUE(state.Append(Reduced(reduction, array, first, count)).ok());
    first += count;
  }
  return state;
}

double ValueOfField(const PartialState& state) { return state.Finish(0).value().entries.back().double_value; }

// variance, stddev and describe of the array: every cut gives the same bits, and these are within kBound.
template <class T>
void Check(const std::string& name, ElementType type, const std::vector<T>& array, bool ignore_nan = false) {
  SCOPED_TRACE(absl::StrCat(name, " as ", ElementTypeName(type)));
  std::vector<T> counted;
  for (const T x : array) {
    if constexpr (FloatElement<T>) {
      if (ignore_nan && IsNan(x)) continue;
    }
    counted.push_back(x);
  }
  const Binary128 deviations = ExactDeviations<T>(counted);
  std::mt19937_64 random(array.size());
  for (const std::string op : {"variance", "stddev", "describe"}) {
    ReductionSpec spec;
    spec.operators = {op};
    spec.element_type = type;
    spec.ignore_nan = ignore_nan;
    spec.wrap_overflow = true;  // describe's sum
    const ReductionPlan reduction = ReductionPlan::Create(spec).value();
    const PartialState whole = Reduced<T>(reduction, array, 0, array.size());
    for (int cut = 0; cut < 4; ++cut) {
      const auto leaves = [&]() -> std::uint64_t { return cut == 0 ? 1 : 1 + random() % (4 << cut); };
      ExpectSame(ReducedInPieces<T>(reduction, array, leaves), whole);
    }
    const auto exact = static_cast<long double>(deviations / static_cast<Binary128>(counted.size()));
    const long double wanted = op == "stddev" ? std::sqrt(exact) : exact;
    const long double got = ValueOfField(whole);
    EXPECT_LE(std::fabs(got - wanted), kBound * wanted) << op << " " << static_cast<double>(got);
  }
}

std::vector<double> Normal(std::size_t count, double mean, double deviation) {
  std::mt19937_64 random(count);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> array(count);
  for (double& x : array) x = mean + normal(random);
  return array;
}

TEST(VarianceAccuracyTest, LargeMeans) {
  for (const double mean : {0.0, 1.0, 1e3, 1e6, 1e9, 1e12, 1e15, 4e15, 9e15, 1e16, 1e18, -1e9, -1e15}) {
    for (const std::size_t count : {2, 3, 100, 513, 5'000, 100'000}) {
      const std::vector<double> array = Normal(count, mean, 1.0);
      // Far from 0 an array of few numbers may be one of equal numbers, for which the bound holds as well.
      Check("normal around " + std::to_string(mean), ElementType::kFloat64, array);
    }
  }
  // Each element is one of two neighbours.
  for (const std::size_t period : {2, 3, 7, 64, 1000, 99'999}) {
    std::vector<double> array(100'000, 1e16);
    for (std::size_t i = 0; i < array.size(); i += period) array[i] = 1e16 + 2;
    Check("neighbours", ElementType::kFloat64, array);
  }
}

TEST(VarianceAccuracyTest, Outliers) {
  for (const std::size_t at : {0, 1, 17, 511, 512, 3'000, 49'999}) {
    for (const double outlier : {1e3, 1e8, 1e16, 1e100, -1e140}) {
      for (const double mean : {0.0, 1e6, 1e15}) {
        std::vector<double> array = Normal(50'000, mean, 1.0);
        array[at] = outlier;
        Check("outlier", ElementType::kFloat64, array);
        std::vector<float> floats(array.begin(), array.end());
        if (std::fabs(outlier) < 1e30) Check("outlier", ElementType::kFloat32, floats);
      }
    }
  }
}

TEST(VarianceAccuracyTest, SignsAndSizes) {
  std::mt19937_64 random;
  std::vector<double> alternating(30'001);
  std::vector<double> wide(30'001);
  std::vector<double> rising(30'001);
  std::vector<double> steps(30'001);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    alternating[i] = (i % 2 == 0 ? 1.0 : -1.0) * (1e9 + static_cast<double>(random() % 1000));
    wide[i] =
        std::ldexp(static_cast<double>(random() % 2'000'001) - 1e6, static_cast<int>(random() % 900) - 450);
    rising[i] = 1e12 + static_cast<double>(i);
    steps[i] = i < wide.size() / 2 ? 1e15 : 1e15 + 1024;
  }
  Check("alternating signs", ElementType::kFloat64, alternating);
  Check("all exponents", ElementType::kFloat64, wide);
  Check("rising", ElementType::kFloat64, rising);
  Check("steps", ElementType::kFloat64, steps);
  // Squares at the ends of float64's range: the sum of the deviations, too, must be finite.
  Check("large", ElementType::kFloat64, Normal(10'000, 0, 1e151));
  Check("large beside a larger mean", ElementType::kFloat64, Normal(10'000, 1e160, 1e150));
  Check("small", ElementType::kFloat64, Normal(10'000, 0, 1e-152));
  Check("small beside a mean", ElementType::kFloat64, Normal(10'000, 1e-140, 1e-152));
  Check("subnormal beside 1", ElementType::kFloat64, [] {
    std::vector<double> array(5'000, 5e-324);
    array[77] = 1;
    return array;
  }());
}

TEST(VarianceAccuracyTest, ConstantArraysDoNotVary) {
  for (const double x : {0.0, -0.0, 0.1, -1e16, 1e160 / 3, -7.7e159, 1e300, 5e-324}) {
    for (const std::size_t count : {1, 2, 3, 511, 512, 513, 1025, 10'007}) {
      Check("constant", ElementType::kFloat64, std::vector<double>(count, x));
    }
  }
}

TEST(VarianceAccuracyTest, EveryType) {
  ForEachType(ElementTypes(), []<class T, int kType>() {
    constexpr auto kElementType = ElementTypeAt(kType);
    for (const Flavour flavour : {Flavour::kTame, Flavour::kUnits, Flavour::kExtreme, Flavour::kBits}) {
      if (FloatElement<T> && (flavour == Flavour::kExtreme || flavour == Flavour::kBits)) continue;
      for (const std::uint64_t count : {1, 2, 5, 31, 4'097, 20'011}) {
        Random random(count);
        const std::vector<std::byte> bytes = RandomElements(kElementType, count, flavour, random);
        std::vector<T> array(count);
        std::memcpy(array.data(), bytes.data(), bytes.size());
        Check("random", kElementType, array);
      }
    }
  });
  std::vector<std::int32_t> near(100'000);
  std::vector<std::int64_t> far(100'000);
  std::vector<std::uint64_t> farther(100'000);
  for (std::size_t i = 0; i < near.size(); ++i) {
    near[i] = 2'000'000'000 + static_cast<std::int32_t>(i * 7919 % 10);
    far[i] = std::numeric_limits<std::int64_t>::min() + static_cast<std::int64_t>(i * 7919 % 10);
    farther[i] = std::numeric_limits<std::uint64_t>::max() - i * 7919 % 10;
  }
  Check("2e9 + 0..9", ElementType::kInt32, near);
  Check("-2^63 + 0..9", ElementType::kInt64, far);
  Check("2^64 - 1 - 0..9", ElementType::kUint64, farther);
}

TEST(VarianceAccuracyTest, IgnoringNan) {
  for (const double mean : {0.0, 1e9, 1e15}) {
    for (const std::size_t period : {2, 3, 16, 600}) {
      std::vector<double> array = Normal(20'000, mean, 1.0);
      for (std::size_t i = 0; i < array.size(); ++i) {
        if (i % period == 1 || (i > 3'000 && i < 6'000)) array[i] = std::nan("");
      }
      Check("with NaN", ElementType::kFloat64, array, /*ignore_nan=*/true);
    }
  }
}

// Fewer elements than a lane has, one of which is one unit in the last place above the others: the center
// misses their mean by several such units, so that the sums of the second sweep cancel most. The first of
// these was 1.1e-14 off.
TEST(VarianceAccuracyTest, NeighboursInLanesThatAreNotFull) {
  constexpr std::size_t kRows = 8;
  constexpr std::size_t kRowElements = 64;
  std::mt19937_64 random;
  for (int i = 0; i < 400; ++i) {
    const double base =
        i == 0 ? 0x1.fffffe5280d64p+0 : 2.0 - std::ldexp(1.0 + (random() % 4096), -14 - i % 24);
    for (std::size_t missing = 1; missing < 8; ++missing) {
      std::vector<double> array(kRows * kRowElements, std::nan(""));
      for (std::size_t element = 0; element + missing < 2 * kRows; ++element) {
        const bool is_other = element == (i == 0 ? 1 : random() % 9);
        array[element / 2 * kRowElements + element % 2] = is_other ? std::nextafter(base, 2.0) : base;
      }
      Check("neighbours below 2", ElementType::kFloat64, array, /*ignore_nan=*/true);
    }
  }
}

TEST(VarianceAccuracyTest, WhatIsNotFinite) {
  const auto variance = [](std::vector<double> array) {
    ReductionSpec spec;
    spec.operators = {"variance"};
    spec.element_type = ElementType::kFloat64;
    return ValueOfField(Reduced<double>(ReductionPlan::Create(spec).value(), array, 0, array.size()));
  };
  for (const std::size_t at : {0, 600, 999}) {
    std::vector<double> array(1000, 1.0);
    array[at] = kInfinity;
    EXPECT_TRUE(std::isnan(variance(array)));
    array[at] = std::nan("");
    EXPECT_TRUE(std::isnan(variance(array)));
    array[at] = 1e200;  // its square is beyond float64
    EXPECT_EQ(variance(array), kInfinity);
  }
  EXPECT_TRUE(std::isnan(variance({kInfinity})));
  EXPECT_TRUE(std::isnan(variance(std::vector<double>(1000, 1e308))));  // sums of a lane are beyond float64
  EXPECT_EQ(variance({1e308, 1e308}), kInfinity);
}

}  // namespace
}  // namespace warpfold::kernels
