// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// States that no elements could have written, one kind a row, for every operator that can recognize them.
// They are claimed for the first leaf of an array and rejected with BAD_STATE. possible_states_test.cc tests
// the borders.
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/error.h"
#include "kernels/partial_state.h"
#include "tests/kernels/claim.h"

namespace warpfold::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Forged {
  std::string why;
  std::string op;
  ElementType type;
  std::uint64_t count;
  std::vector<std::uint64_t> words;  // the state, little-endian, cut to the size that it has
  bool ignore_nan = false;
};

void PrintTo(const Forged& forged, std::ostream* out) { *out << forged.op << ": " << forged.why; }

std::uint64_t Bits(double x) { return std::bit_cast<std::uint64_t>(x); }
std::uint64_t Pair(std::int32_t low, std::int32_t high) {
  return std::uint64_t{static_cast<std::uint32_t>(high)} << 32 | static_cast<std::uint32_t>(low);
}
std::uint64_t Signed(std::int64_t x) { return static_cast<std::uint64_t>(x); }

constexpr auto kI8 = ElementType::kInt8;
constexpr auto kI32 = ElementType::kInt32;
constexpr auto kI64 = ElementType::kInt64;
constexpr auto kU8 = ElementType::kUint8;
constexpr auto kU16 = ElementType::kUint16;
constexpr auto kU32 = ElementType::kUint32;
constexpr auto kU64 = ElementType::kUint64;
constexpr auto kF16 = ElementType::kFloat16;
constexpr auto kF32 = ElementType::kFloat32;
constexpr auto kF64 = ElementType::kFloat64;
constexpr auto kBool = ElementType::kBool;
constexpr std::uint64_t kAbove = ~std::uint64_t{0};  // the upper word of a negative number

std::vector<Forged> OfOneNumber() {
  return {
      {"more than one for each element", "sum", kBool, 4096, {4097, 0}},
      {"negative, of bool", "sum", kBool, 3, {kAbove, kAbove}},
      {"above the largest elements", "sum", kI8, 3, {382, 0}},
      {"below the smallest elements", "sum", kI8, 3, {Signed(-385), kAbove}},
      {"negative, of unsigned elements", "sum", kU8, 3, {kAbove, kAbove}},
      {"beyond 64 bits, of few elements", "sum", kI64, 2, {0, 4}},
      {"1e300, of float32", "sum", kF32, 1000, {Bits(1e300)}},
      {"-1e39, of one float32", "sum", kF32, 1, {Bits(-1e39)}},
      {"65505, of one float16", "sum", kF16, 1, {Bits(65505)}},
      {"finer than any element", "sum", kF16, 10, {Bits(0x1p-25)}},
      {"NaN of one element that is none", "sum", kF32, 1, {Bits(kNan)}, true},
      {"mean of 1,000", "mean", kI8, 4, {4000, 0}},
      {"1e300, of float32", "mean", kF32, 4, {Bits(1e300)}},
      {"counts more than there are", "mean", kF32, 3, {Bits(1), 4}, true},
      {"a sum of nothing", "mean", kF32, 3, {Bits(1), 0}, true},
      {"a sum of nothing that is 0.0", "mean", kF32, 3, {Bits(0.0), 0}, true},
      {"a sign that is none", "product", kI32, 3, {6, 2}},
      {"an overflow that is none", "product", kI32, 30, {6, std::uint64_t{2} << 32}},
      {"a negative zero", "product", kI32, 3, {0, 1}},
      {"negative, of unsigned elements", "product", kU32, 3, {6, 1}},
      {"2, of bool", "product", kBool, 3, {2, 0}},
      {"larger than its elements", "product", kI8, 2, {16385, 0}},
      {"128, of one int8", "product", kI8, 1, {128, 0}},
      {"-16384, of two int8", "product", kI8, 2, {16384, 1}},
      {"an overflow of too few elements", "product", kI8, 8, {1, std::uint64_t{1} << 32}},
      {"a NaN with a payload", "min", kF32, 3, {Pair(INT32_MIN + 5, 0)}},
      {"only NaN that are not ignored", "max", kF32, 3, {Pair(INT32_MAX, 0)}, true},
      {"an index outside", "argmin", kI32, 3, {3, 7}},
      {"the worst element, but not the first", "argmin", kI32, 3, {1, INT32_MAX}},
      {"the worst element, but not the first", "argmax", kU8, 3, {2, 0}},
      {"no index", "argmax", kI32, 3, {kAbove, Signed(INT32_MIN)}},
      {"a key wider than an element", "argmax", kI32, 3, {0, std::uint64_t{1} << 40}},
      {"the least above the greatest", "minmax", kI32, 3, {Pair(5, 3)}},
      {"the least above the greatest", "minmax", kF32, 3, {Pair(5, 3)}},
      {"two of one element", "minmax", kI32, 1, {Pair(3, 5)}},
      {"NaN in one place", "minmax", kF32, 3, {Pair(INT32_MIN, 5)}},
      {"beyond the largest magnitude", "max_abs", kI8, 3, {129}},
      {"2, of bool", "bit_or", kBool, 3, {2}},
      {"more than there are", "count_nonzero", kF32, 3, {4}},
      {"more than there are", "all", kI32, 3, {4}},
      {"more than there are", "any", kI32, 3, {4}},
      {"too large", "sum_of_squares", kI8, 3, {3 * 16384 + 1, 0}},
      {"negative", "sum_of_squares", kF64, 3, {Bits(-1)}},
      {"one more than the largest square", "sum_of_squares", kI64, 1, {1, std::uint64_t{1} << 62, 0}},
      {"a negative zero", "sum_of_squares", kF64, 3, {Bits(-0.0)}},
      {"1e300, of float32", "sum_of_squares", kF32, 3, {Bits(1e300)}},
      {"negative", "l1_norm", kF32, 3, {Bits(-1)}},
      {"a negative zero", "l1_norm", kF32, 3, {Bits(-0.0)}},
      {"1e300, of float32", "l1_norm", kF32, 3, {Bits(1e300)}},
      {"too large", "l1_norm", kI8, 3, {385, 0}},
      {"negative", "l2_norm", kF64, 3, {Bits(-1)}},
      {"a negative zero", "l2_norm", kF32, 3, {Bits(-0.0)}},
      {"more than the largest square", "l2_norm", kI64, 1, {kAbove, kAbove, 0}},
  };
}

std::vector<Forged> OfSeveralNumbers() {
  return {
      {"negative squares", "variance", kF64, 3, {Bits(1), 0, Bits(-1), 3}},
      {"another count", "variance", kF64, 3, {Bits(1), 0, Bits(1), 4}},
      {"one element that varies", "variance", kF64, 1, {Bits(1), 0, Bits(1), 1}},
      {"a mean beyond float32", "variance", kF32, 3, {Bits(1e39), 0, Bits(1), 3}},
      {"a lower part that is no rounding", "variance", kF32, 3, {Bits(1), Bits(1e30), Bits(1), 3}},
      {"squares beyond float32's", "variance", kF32, 3, {Bits(1), 0, Bits(1e300), 3}},
      {"a mean of nothing", "variance", kF32, 3, {Bits(1), 0, 0, 0}, true},
      {"squares less than the mean's", "variance", kI32, 3, {9, 0, 26, 0}},
      {"squares that a sum of 1 over 3 has not", "stddev", kI32, 3, {1, 0, 0, 0}},
      {"an odd sum of even squares", "stddev", kI32, 3, {9, 0, 28, 0}},
      {"squares of bool", "variance", kBool, 3, {1, 0, 3, 0}},
      {"a sum that is too large", "variance", kI8, 3, {383, 0, 48899, 0}},
      {"squares of a sum of 0", "variance", kU16, 1, {0, 0, 3554305924, 0}},
      {"squares of a sum of 0", "stddev", kU64, 3, {0, 0, 4, 0, 0}},
      {"other squares of one element", "variance", kI8, 1, {5, 0, 27, 0}},
      {"more than 255 times their sum", "stddev", kU8, 3, {300, 0, 76502, 0}},
      {"more than 255, 45 and 0 have", "variance", kU8, 3, {300, 0, 67052, 0}},
      {"more than -128 and 127 have", "variance", kI8, 2, {kAbove, kAbove, 32515, 0}},
      {"squares of a sum of 0", "describe", kU16, 1, {0, 0, 4, 0, 0, 0}},
      {"squares beyond the extremes", "describe", kI32, 3, {9, 0, 35, 0, 1, 4}},
      {"other squares", "describe", kI32, 3, {9, 0, 26, 0, 3, 3}},
      {"the least above the greatest", "describe", kI32, 3, {9, 0, 27, 0, 4, 3}},
      {"a sum below the least of its elements", "describe", kI32, 3, {9, 0, 27, 0, 4, 5}},
      {"a sum above the greatest", "describe", kI32, 1, {9, 0, 81, 0, 3, 3}},
      {"extremes of one element that differ", "describe", kI32, 1, {4, 0, 16, 0, 3, 5}},
      {"extremes that two elements cannot have", "describe", kI32, 2, {10, 0, 50, 0, 4, 6}},
      {"extremes whose squares are more than all", "describe", kI64, 3, {3, 0, 5, 0, 0, Signed(-2), 3}},
      {"too little left for the third element", "describe", kU8, 3, {9, 0, 29, 0, 0, 5}},
      {"-0.0 squares", "variance", kF32, 3, {Bits(2), 0, Bits(-0.0), 3}},
      {"less than its largest gives", "logsumexp", kF32, 3, {Bits(1), Bits(0.5)}},
      {"more than its elements give", "logsumexp", kF32, 3, {Bits(1), Bits(4)}},
      {"a largest beyond float32", "logsumexp", kF32, 3, {Bits(1e39), Bits(1)}},
      {"NaN though it is ignored", "first", kF32, 3, {0x7fc00000, 1}, true},
      {"wider than an element", "last", kI32, 3, {std::uint64_t{1} << 32, 1}},
      {"nothing", "first", kI32, 3, {0, 0}},
      {"a sum wider than its elements", "exact_sum", kF16, 3, {0, std::uint64_t{1} << 60, 0}},
      {"one unit more than the largest", "exact_sum", kF16, 1, {(std::uint64_t{65504} << 24) + 1, 0, 0}},
      {"as many units as three have, of two", "exact_sum", kF16, 2, {std::uint64_t{3 * 65504} << 24, 0, 0}},
      {"infinity and a number", "exact_sum", kF16, 3, {1, 0, 1}},
      {"an unknown mark", "exact_sum", kF16, 3, {0, 0, 4}},
  };
}

// Words of the state: total, best, prefix, suffix, of two words each if elements are integers; begin and end
// of the best part, end of the prefix, begin of the suffix; 1.
std::vector<Forged> OfSubarrays() {
  return {
      {"the best below the first", "max_subarray_sum", kI32, 3, {5, 0, 4, 0, 5, 0, 5, 0, 0, 3, 3, 0, 1}},
      {"a sum beyond its elements",
       "max_subarray_sum",
       kI8,
       3,
       {900, 0, 900, 0, 900, 0, 900, 0, 0, 3, 3, 0, 1}},
      {"two sums of the same part", "max_subarray_sum", kI32, 3, {4, 0, 5, 0, 5, 0, 5, 0, 0, 3, 3, 0, 1}},
      {"a best part that is longer than the best prefix",
       "max_subarray_sum",
       kI32,
       3,
       {4, 0, 6, 0, 6, 0, 5, 0, 0, 2, 1, 2, 1}},
      {"a best part that begins after the best suffix",
       "max_subarray_sum",
       kI32,
       3,
       {4, 0, 6, 0, 5, 0, 6, 0, 2, 3, 1, 1, 1}},
      {"two sums of the same floats",
       "max_subarray_sum",
       kF32,
       3,
       {Bits(4), Bits(5), Bits(5), Bits(5), 0, 3, 3, 0, 1}},
      {"NaN of elements whose total is a number",
       "max_subarray_sum",
       kF32,
       2,
       {Bits(3), Bits(kNan), Bits(3), Bits(3), 0, 2, 2, 0, 1}},
      {"NaN at the start, with a total",
       "max_subarray_sum",
       kF32,
       2,
       {Bits(3), Bits(3), Bits(kNan), Bits(3), 0, 2, 2, 0, 1}},
      {"NaN at the end, with a total",
       "max_subarray_sum",
       kF32,
       2,
       {Bits(3), Bits(3), Bits(3), Bits(kNan), 0, 2, 2, 0, 1}},
      {"a part with a NaN that is ignored",
       "max_subarray_sum",
       kF32,
       2,
       {Bits(kNan), Bits(kNan), Bits(kInfinity), Bits(-kInfinity), 0, 2, 1, 1, 1},
       true},
      {"a part outside", "max_subarray_sum", kI32, 3, {5, 0, 5, 0, 5, 0, 5, 0, 0, 4, 3, 0, 1}},
  };
}

// The state of `describe` for float32 elements 1, 2 and 3, except for one thing or two.
std::vector<Forged> OfDescribe() {
  const auto key = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
  const auto state = [&](double sum, double mean, std::uint64_t present, std::uint64_t min,
                         std::uint64_t max) {
    return std::vector<std::uint64_t>{Bits(sum), Bits(mean), 0, Bits(present > 1 ? 2 : 0), present, min, max};
  };
  const std::uint64_t one = key(1);
  const std::uint64_t three = key(3);
  const std::uint64_t nan_min = Signed(INT32_MIN);
  const std::uint64_t no_min = INT32_MAX;
  const std::uint64_t no_max = Signed(INT32_MIN);
  return {
      {"a sum of 1e300", "describe", kF32, 3, state(1e300, 2, 3, one, three)},
      {"a sum finer than any element", "describe", kF32, 3, state(0x1p-200, 2, 3, one, three)},
      {"a sum below the least of its elements", "describe", kF32, 3, state(2, 2, 3, one, three)},
      {"a sum above the greatest", "describe", kF32, 3, state(10, 2, 3, one, three)},
      {"NaN of finite elements", "describe", kF32, 3, state(kNan, 2, 3, one, three)},
      {"infinity of finite elements", "describe", kF32, 3, state(kInfinity, 2, 3, one, three)},
      {"a mean above the greatest", "describe", kF32, 3, state(6, 4, 3, one, three)},
      {"a sum of a NaN", "describe", kF32, 3, state(6, 2, 3, nan_min, INT32_MAX)},
      {"NaN that is ignored", "describe", kF32, 1, state(kNan, 0, 0, no_min, no_max), true},
      {"a sum of nothing", "describe", kF32, 3, state(7, 0, 0, no_min, no_max), true},
      {"a sum of nothing that is -0.0", "describe", kF32, 3, state(-0.0, 0, 0, no_min, no_max), true},
      {"elements without extremes", "describe", kF32, 3, state(3, 1.5, 2, no_min, no_max), true},
      {"extremes without elements", "describe", kF32, 3, state(0, 0, 0, one, three), true},
      {"extremes of one element", "describe", kF32, 3, state(2, 2, 1, one, three), true},
  };
}

std::vector<Forged> AllForged() {
  std::vector<Forged> all = OfOneNumber();
  for (Forged& forged : OfSeveralNumbers()) all.push_back(std::move(forged));
  for (Forged& forged : OfSubarrays()) all.push_back(std::move(forged));
  for (Forged& forged : OfDescribe()) all.push_back(std::move(forged));
  return all;
}

class ForgedStatesTest : public testing::TestWithParam<Forged> {};

TEST_P(ForgedStatesTest, IsRefused) {
  const Forged& forged = GetParam();
  ReductionSpec spec;
  spec.operators = {forged.op};
  spec.element_type = forged.type;
  spec.ignore_nan = forged.ignore_nan;
  const ReductionPlan reduction = ReductionPlan::Create(spec).value();
  ASSERT_LE(forged.count, reduction.leaf_elements());
  const std::size_t bytes = reduction.operators()[0].state_bytes;
  ASSERT_EQ(forged.words.size(), (bytes + 7) / 8);
  std::vector<std::byte> state(reduction.node_bytes());
  std::memcpy(state.data(), forged.words.data(), bytes);
  const absl::Status status = ClaimOfOneLeaf(reduction, 0, forged.count, state);
  EXPECT_EQ(ErrorReason(status), "BAD_STATE") << status;
}

INSTANTIATE_TEST_SUITE_P(Every, ForgedStatesTest, testing::ValuesIn(AllForged()));

}  // namespace
}  // namespace warpfold::kernels
