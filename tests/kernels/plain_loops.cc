// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/plain_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "gtest/gtest.h"
#include "kernels/operators/element_types.h"
#include "kernels/operators/lists.h"

namespace warpfold::kernels {
namespace {

constexpr long double kEpsilon = std::numeric_limits<double>::epsilon();

template <class Term>
long double SumOver(const Numbers& array, Term term) {
  long double sum = 0;
  for (const long double x : array) sum += term(x);
  return sum;
}

long double Sum(const Numbers& array) {
  return SumOver(array, [](long double x) { return x; });
}
long double Magnitudes(const Numbers& array) {
  return SumOver(array, [](long double x) { return std::fabs(x); });
}
long double Squares(const Numbers& array) {
  return SumOver(array, [](long double x) { return x * x; });
}
// Computed in 113 bits: more than sums of elements of like magnitudes have.
long double ExactSum(const Numbers& array) {
  __extension__ __float128 sum = 0;
  for (const long double x : array) sum += x;
  return static_cast<double>(sum);
}
long double Mean(const Numbers& array) { return Sum(array) / static_cast<long double>(array.size()); }

PlainValue Product(const Numbers& array) {
  long double product = 1;
  for (const long double x : array) product *= x;
  return {.value = product, .scale = std::fabs(product) * static_cast<long double>(array.size())};
}

PlainValue Variance(const Numbers& array, std::uint64_t ddof) {
  const long double mean = Mean(array);
  const long double deviations = SumOver(array, [mean](long double x) { return (x - mean) * (x - mean); });
  const long double variance = deviations / static_cast<long double>(array.size() - ddof);
  // The deviations are as accurate as the mean from which they are measured.
  const long double from_mean = std::fabs(mean) * std::sqrt(variance) + kEpsilon * mean * mean;
  return {.value = variance, .scale = variance + from_mean};
}

PlainValue Stddev(const Numbers& array, std::uint64_t ddof) {
  const long double root = std::sqrt(Variance(array, ddof).value);
  return {.value = root, .scale = root + std::fabs(Mean(array))};
}

PlainValue Logsumexp(const Numbers& array) {
  const long double largest = *std::max_element(array.begin(), array.end());
  const long double sum = SumOver(array, [largest](long double x) { return std::exp(x - largest); });
  const long double value = largest + std::log(sum);
  return {.value = value, .scale = 1 + std::fabs(value)};
}

PlainValue At(const Numbers& array, Numbers::const_iterator position) {
  return {.value = *position, .index = static_cast<std::uint64_t>(position - array.begin())};
}

template <class Operation>
PlainValue Bitwise(const Numbers& array, Operation operation) {
  const auto bits = [](long double x) { return static_cast<Int128>(x); };
  Int128 result = bits(array[0]);
  for (std::size_t i = 1; i < array.size(); ++i) result = operation(result, bits(array[i]));
  return {.value = static_cast<long double>(result)};
}

// Kadane's algorithm. Among parts with equal sums it takes the one that starts first, then the shortest.
PlainValue MaxSubarraySum(const Numbers& array) {
  PlainValue best = {.value = array[0],
                     .scale = Magnitudes(array),
                     .index = std::uint64_t{0},
                     .end_index = std::uint64_t{1}};
  long double ending = array[0];
  std::uint64_t begin = 0;
  for (std::uint64_t i = 1; i < array.size(); ++i) {
    if (ending < 0) begin = i;
    ending = (ending < 0 ? 0 : ending) + array[i];
    if (ending > best.value || (ending == best.value && begin < *best.index)) {
      best.value = ending;
      best.index = begin;
      best.end_index = i + 1;
    }
  }
  return best;
}

PlainValue CountNonzero(const Numbers& array) {
  return {.value = SumOver(array, [](long double x) { return x != 0 ? 1.0L : 0.0L; })};
}

PlainValue PlainValueOf(const std::string& op, const Numbers& array, std::uint64_t ddof) {
  const auto count = static_cast<long double>(array.size());
  const auto least = std::min_element(array.begin(), array.end());
  const auto largest = std::max_element(array.begin(), array.end());
  using Loop = std::function<PlainValue()>;
  const std::map<std::string, Loop> loops = {
      {"exact_sum", [&] { return PlainValue{.value = ExactSum(array)}; }},
      {"sum", [&] { return PlainValue{.value = Sum(array), .scale = Magnitudes(array)}; }},
      {"product", [&] { return Product(array); }},
      {"min", [&] { return PlainValue{.value = *least}; }},
      {"max", [&] { return PlainValue{.value = *largest}; }},
      {"argmin", [&] { return At(array, least); }},
      {"argmax", [&] { return At(array, largest); }},
      {"bit_and", [&] { return Bitwise(array, [](Int128 a, Int128 b) { return a & b; }); }},
      {"bit_or", [&] { return Bitwise(array, [](Int128 a, Int128 b) { return a | b; }); }},
      {"bit_xor", [&] { return Bitwise(array, [](Int128 a, Int128 b) { return a ^ b; }); }},
      {"all", [&] { return PlainValue{.value = CountNonzero(array).value == count ? 1.0L : 0.0L}; }},
      {"any", [&] { return PlainValue{.value = CountNonzero(array).value > 0 ? 1.0L : 0.0L}; }},
      {"count_nonzero", [&] { return CountNonzero(array); }},
      {"count", [&] { return PlainValue{.value = count}; }},
      {"mean", [&] { return PlainValue{.value = Mean(array), .scale = Magnitudes(array) / count}; }},
      {"sum_of_squares", [&] { return PlainValue{.value = Squares(array), .scale = Squares(array)}; }},
      {"l1_norm", [&] { return PlainValue{.value = Magnitudes(array), .scale = Magnitudes(array)}; }},
      {"l2_norm",
       [&] {
         const long double root = std::sqrt(Squares(array));
         return PlainValue{.value = root, .scale = root};
       }},
      {"max_abs", [&] { return PlainValue{.value = std::max(std::fabs(*least), std::fabs(*largest))}; }},
      {"variance", [&] { return Variance(array, ddof); }},
      {"stddev", [&] { return Stddev(array, ddof); }},
      {"logsumexp", [&] { return Logsumexp(array); }},
      {"first", [&] { return PlainValue{.value = array.front()}; }},
      {"last", [&] { return PlainValue{.value = array.back()}; }},
      {"max_subarray_sum", [&] { return MaxSubarraySum(array); }}};
  const auto loop = loops.find(op);
  if (loop == loops.end()) {
    ADD_FAILURE() << "no plain loop for " << op;
    return {};
  }
  return loop->second();
}

}  // namespace

long double NumberOf(const Scalar& scalar) {
  switch (scalar.kind) {
    case Scalar::Kind::kInt64:
      return scalar.int64_value;
    case Scalar::Kind::kUint64:
      return scalar.uint64_value;
    case Scalar::Kind::kDouble:
      return scalar.double_value;
    case Scalar::Kind::kBool:
      return scalar.bool_value ? 1 : 0;
  }
  return 0;
}

Numbers NumbersOf(ElementType type, std::span<const std::byte> elements) {
  Numbers numbers;
  ForEachType(ElementTypes(), [&]<class T, int kType>() {
    if (IndexOf(type) != kType) return;
    for (std::size_t i = 0; i < elements.size(); i += sizeof(T)) {
      T x;
      std::memcpy(&x, &elements[i], sizeof x);
      numbers.push_back(ValueOf(x));
    }
  });
  return numbers;
}

std::vector<PlainValue> PlainValues(const std::string& op, const Numbers& array, std::uint64_t ddof) {
  std::vector<std::string> fields;
  if (op == "minmax") fields = {"min", "max"};
  if (op == "describe") fields = {"count", "min", "max", "sum", "mean", "variance"};
  if (fields.empty()) fields = {op};
  std::vector<PlainValue> values;
  for (const std::string& field : fields) values.push_back(PlainValueOf(field, array, ddof));
  return values;
}

}  // namespace warpfold::kernels
