// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Long arrays against plain_loops.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/operators/portable.h"
#include "tests/kernels/long_arrays.h"
#include "tests/kernels/plain_loops.h"

namespace warpfold::kernels {
namespace {

// Results against plain loops: exact unless they are doubles.
template <class T>
void CheckAgainstLoops(const std::string& op, ElementType type, const std::vector<T>& array,
                       std::uint64_t ddof = 0) {
  SCOPED_TRACE(op);
  ReductionSpec spec;
  spec.ddof = ddof;
  const OperatorValue value = Reduce<T>(spec, op, type, array);
  const std::vector<PlainValue> wanted =
      PlainValues(op, NumbersOf(type, std::as_bytes(std::span(array))), ddof);
  ASSERT_EQ(value.entries.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool rounds = value.entries[i].kind == Scalar::Kind::kDouble;
    // No element passes through more roundings than this; integers are also converted, and rounded, once
    // more.
    const long double scale = std::max(wanted[i].scale, std::fabs(wanted[i].value));
    const long double error = rounds ? 64 * scale * std::numeric_limits<double>::epsilon() : 0;
    EXPECT_LE(std::fabs(NumberOf(value.entries[i]) - wanted[i].value), error) << "field " << i;
  }
  if (FloatElement<T>) return;  // sums of floats tie if rounding makes them equal
  EXPECT_EQ(value.index, wanted[0].index);
  EXPECT_EQ(value.end_index, wanted[0].end_index);
}

TEST(ValuesTest, AgainstPlainLoops) {
  ForEachElementType([]<class T>(ElementType type) {
    const std::vector<T> array = RandomArray<T>(type, kCount, Flavour::kTame);
    const std::vector<T> units = RandomArray<T>(type, 5'003, Flavour::kUnits);
    const std::vector<T> wide = RandomArray<T>(type, 5'003, Flavour::kWide);
    for (const char* const op : {"sum_of_squares", "l1_norm", "l2_norm", "max_abs", "variance", "stddev",
                                 "minmax", "describe", "first", "last", "max_subarray_sum"}) {
      CheckAgainstLoops(op, type, array);
      if (FloatElement<T> || kIsSigned<T>) CheckAgainstLoops(op, type, units);
      if (FloatElement<T>) CheckAgainstLoops(op, type, wide);
    }
    if constexpr (FloatElement<T>) {
      CheckAgainstLoops("logsumexp", type, array);
      CheckAgainstLoops("logsumexp", type, wide);
    }
    for (const std::uint64_t ddof : {1, 2, 300'000}) {
      for (const char* const op : {"variance", "stddev", "describe"}) {
        CheckAgainstLoops(op, type, array, ddof);
      }
    }
  });
}

TEST(ValuesTest, VarianceAroundALargeMean) {
  constexpr ElementType kType = ElementType::kFloat64;
  std::vector<double> array = RandomArray<double>(kType, kCount, Flavour::kTame);
  for (double& x : array) x += 1e9;
  for (const char* const op : {"variance", "stddev", "describe"}) CheckAgainstLoops(op, kType, array);
  // As if the mean were 0: sums of squares would have lost all digits.
  EXPECT_NEAR(Reduce("variance", kType, array).entries[0].double_value, 1.0, 0.01);
  const std::vector<double> constant(kCount, 1e9);
  EXPECT_EQ(Reduce("variance", kType, constant).entries[0].double_value, 0.0);
}

TEST(ValuesTest, AffineCompose) {
  ForEachElementType([]<class T>(ElementType type) {
    if constexpr (IntegerElement<T> && RingElement<T>) {
      std::vector<T> array = RandomArray<T>(type, 2 * kCount, Flavour::kBits);
      for (std::size_t i = 0; i < array.size(); i += 2) array[i] |= 1;  // otherwise the product is soon zero
      for (const std::uint64_t modulus : {std::uint64_t{0}, std::uint64_t{1'000'000'007}}) {
        ReductionSpec spec;
        spec.shape = {1, 2};
        if (modulus != 0) spec.modulus = modulus;
        const Int128 ring = modulus != 0 ? Int128{modulus} : Int128{1} << (8 * sizeof(T));
        const auto residue = [ring](Int128 x) { return static_cast<Uint128>((x % ring + ring) % ring); };
        Uint128 a = 1;
        Uint128 b = 0;
        for (std::size_t i = 0; i < array.size(); i += 2) {
          const Uint128 slope = residue(array[i]);
          a = slope * a % static_cast<Uint128>(ring);
          b = (slope * b % static_cast<Uint128>(ring) + residue(array[i + 1])) % static_cast<Uint128>(ring);
        }
        const OperatorValue value = Reduce<T>(spec, "affine_compose", type, array);
        EXPECT_EQ(Number<T>(value.entries[0]), static_cast<T>(a));
        EXPECT_EQ(Number<T>(value.entries[1]), static_cast<T>(b));
      }
    } else if constexpr (RingElement<T>) {
      std::vector<T> array = RandomArray<T>(type, 2 * kCount, Flavour::kTame);
      long double x = 0;
      for (std::size_t i = 0; i < array.size(); i += 2) {
        array[i] /= 2;  // every map halves the rounding errors before it
        x = array[i] * x + array[i + 1];
      }
      ReductionSpec spec;
      spec.shape = {1, 2};
      const OperatorValue value = Reduce<T>(spec, "affine_compose", type, array);
      EXPECT_NEAR(value.entries[1].double_value, static_cast<double>(x),
                  16 * static_cast<double>(std::numeric_limits<T>::epsilon()));
    }
  });
}

}  // namespace
}  // namespace warpfold::kernels
