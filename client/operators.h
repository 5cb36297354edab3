// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operators over scalars as constants, so that the compiler knows the type of the answer:
//
//   absl::StatusOr<std::int64_t> sum = client.Reduce(warpfold::kSum, std::vector<std::int32_t>{1, 2});
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "client/array.h"

namespace warpfold {

// An element, and its index in the array.
template <typename T>
struct Located {
  T value;
  std::uint64_t index = 0;
  friend bool operator==(const Located&, const Located&) = default;
};

// The type in which the service answers an element: int64, uint64 or double.
template <Element T>
using Wide = std::conditional_t<std::floating_point<T>, double,
                                std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>>;

// What an operator answers for elements of type T.
enum class Answer : std::uint8_t {
  kWide,     // Wide<T>
  kLocated,  // Located<Wide<T>>
  kCount,    // uint64
  kDouble,
  kBool,
};

template <Answer answer>
struct ScalarOperator {
  absl::string_view name;
};

template <Answer answer, Element T>
using AnswerFor = std::conditional_t<
    answer == Answer::kWide, Wide<T>,
    std::conditional_t<answer == Answer::kLocated, Located<Wide<T>>,
                       std::conditional_t<answer == Answer::kCount, std::uint64_t,
                                          std::conditional_t<answer == Answer::kDouble, double, bool>>>>;

inline constexpr ScalarOperator<Answer::kWide> kSum{"sum"};
inline constexpr ScalarOperator<Answer::kWide> kProduct{"product"};
inline constexpr ScalarOperator<Answer::kWide> kMin{"min"};
inline constexpr ScalarOperator<Answer::kWide> kMax{"max"};
inline constexpr ScalarOperator<Answer::kLocated> kArgmin{"argmin"};
inline constexpr ScalarOperator<Answer::kLocated> kArgmax{"argmax"};
inline constexpr ScalarOperator<Answer::kWide> kBitAnd{"bit_and"};
inline constexpr ScalarOperator<Answer::kWide> kBitOr{"bit_or"};
inline constexpr ScalarOperator<Answer::kWide> kBitXor{"bit_xor"};
inline constexpr ScalarOperator<Answer::kBool> kAll{"all"};
inline constexpr ScalarOperator<Answer::kBool> kAny{"any"};
inline constexpr ScalarOperator<Answer::kCount> kCountNonzero{"count_nonzero"};
inline constexpr ScalarOperator<Answer::kDouble> kMean{"mean"};

}  // namespace warpfold
