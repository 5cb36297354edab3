// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operators over scalars as constants, so that the compiler knows the type of the result:
//
//   absl::StatusOr<std::int64_t> sum = client.Reduce(warpfold::kSum, std::vector<std::int32_t>{1, 2});
//
// Operators that return several values have no constant: minmax, describe and max_subarray_sum, and, over
// matrices, matrix_product and affine_compose. A Spec names them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "client/array.h"

namespace warpfold {

// A value, and the index in the array of the element that has it.
template <typename T>
struct Located {
  T value;
  std::uint64_t index = 0;
  friend bool operator==(const Located&, const Located&) = default;
};

// The type in which the service returns a sum of elements: int64, uint64 or double.
template <Element T>
using Wide = std::conditional_t<FloatElement<T>, double,
                                std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>>;

// The type in which the service returns an element itself: bool for bool, otherwise Wide<T>.
template <Element T>
using Natural = std::conditional_t<std::same_as<T, bool>, bool, Wide<T>>;

// What an operator returns for elements of type T.
enum class Answer : std::uint8_t {
  kWide,       // Wide<T>
  kElement,    // Natural<T>
  kLocated,    // Located<Natural<T>>
  kCount,      // uint64
  kMagnitude,  // uint64, double for floats
  kDouble,
  kBool,
};

template <Answer answer>
struct ScalarOperator {
  absl::string_view name;
};

template <Answer answer, Element T>
struct AnswerForT {
  using type = Wide<T>;
};
template <Element T>
struct AnswerForT<Answer::kElement, T> {
  using type = Natural<T>;
};
template <Element T>
struct AnswerForT<Answer::kLocated, T> {
  using type = Located<Natural<T>>;
};
template <Element T>
struct AnswerForT<Answer::kCount, T> {
  using type = std::uint64_t;
};
template <Element T>
struct AnswerForT<Answer::kMagnitude, T> {
  using type = std::conditional_t<FloatElement<T>, double, std::uint64_t>;
};
template <Element T>
struct AnswerForT<Answer::kDouble, T> {
  using type = double;
};
template <Element T>
struct AnswerForT<Answer::kBool, T> {
  using type = bool;
};
template <Answer answer, Element T>
using AnswerFor = typename AnswerForT<answer, T>::type;

inline constexpr ScalarOperator<Answer::kWide> kSum{"sum"};
inline constexpr ScalarOperator<Answer::kWide> kProduct{"product"};
inline constexpr ScalarOperator<Answer::kElement> kMin{"min"};
inline constexpr ScalarOperator<Answer::kElement> kMax{"max"};
inline constexpr ScalarOperator<Answer::kLocated> kArgmin{"argmin"};
inline constexpr ScalarOperator<Answer::kLocated> kArgmax{"argmax"};
inline constexpr ScalarOperator<Answer::kElement> kBitAnd{"bit_and"};
inline constexpr ScalarOperator<Answer::kElement> kBitOr{"bit_or"};
inline constexpr ScalarOperator<Answer::kElement> kBitXor{"bit_xor"};
inline constexpr ScalarOperator<Answer::kBool> kAll{"all"};
inline constexpr ScalarOperator<Answer::kBool> kAny{"any"};
inline constexpr ScalarOperator<Answer::kCount> kCountNonzero{"count_nonzero"};
inline constexpr ScalarOperator<Answer::kDouble> kMean{"mean"};
inline constexpr ScalarOperator<Answer::kWide> kSumOfSquares{"sum_of_squares"};
inline constexpr ScalarOperator<Answer::kDouble> kL1Norm{"l1_norm"};
inline constexpr ScalarOperator<Answer::kDouble> kL2Norm{"l2_norm"};
inline constexpr ScalarOperator<Answer::kMagnitude> kMaxAbs{"max_abs"};
inline constexpr ScalarOperator<Answer::kDouble> kVariance{"variance"};
inline constexpr ScalarOperator<Answer::kDouble> kStddev{"stddev"};
inline constexpr ScalarOperator<Answer::kDouble> kLogsumexp{"logsumexp"};
inline constexpr ScalarOperator<Answer::kDouble> kExactSum{"exact_sum"};
inline constexpr ScalarOperator<Answer::kElement> kFirst{"first"};
inline constexpr ScalarOperator<Answer::kElement> kLast{"last"};

}  // namespace warpfold
