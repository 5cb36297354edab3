// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What an array is made of, and what to compute from it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "proto/element_type.h"

namespace warpfold {

// 16-bit floats as C++ elements: IEEE 754 binary16, and the upper half of a binary32.
struct Float16 {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};

template <typename T>
concept FloatElement = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, Float16> ||
    std::same_as<T, Bfloat16>;
// Where std::int64_t is long, long long is another type of the same representation.
template <typename T>
concept IntegerElement = std::same_as<T, std::int8_t> || std::same_as<T, std::uint8_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::uint16_t> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> ||
    std::same_as<T, long long> || std::same_as<T, unsigned long long>;
template <typename T>
concept Element = FloatElement<T> || IntegerElement<T> || std::same_as<T, bool>;

// A vector, an array or a span of a C++ type that is an element type.
template <typename R>
concept ElementRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Element<std::ranges::range_value_t<R>>;

template <Element T>
constexpr ElementType ElementTypeOf() {
  if constexpr (std::same_as<T, bool>) return ElementType::kBool;
  if constexpr (std::same_as<T, Float16>) return ElementType::kFloat16;
  if constexpr (std::same_as<T, Bfloat16>) return ElementType::kBfloat16;
  if constexpr (std::same_as<T, float>) return ElementType::kFloat32;
  if constexpr (std::same_as<T, double>) return ElementType::kFloat64;
  constexpr bool kSigned = std::signed_integral<T>;
  switch (sizeof(T)) {
    case 1:
      return kSigned ? ElementType::kInt8 : ElementType::kUint8;
    case 2:
      return kSigned ? ElementType::kInt16 : ElementType::kUint16;
    case 4:
      return kSigned ? ElementType::kInt32 : ElementType::kUint32;
    default:
      return kSigned ? ElementType::kInt64 : ElementType::kUint64;
  }
}

// The shape of each element of an array of matrices, row-major.
struct MatrixShape {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  friend bool operator==(MatrixShape, MatrixShape) = default;
};

// What to compute. docs/operators.md describes each operator.
struct Spec {
  // Names such as "sum"; one to 16, without repetition, all computed in one pass over the data.
  std::vector<std::string> operators = {};
  // Absent for an array of scalars.
  std::optional<MatrixShape> matrix_shape = std::nullopt;
  // If the exact integer value does not fit, true computes in two's complement in the element type, which
  // sum, product, sum_of_squares and describe support. False returns OUT_OF_RANGE; it is rejected for
  // operators that always wrap: matrix_product and affine_compose over integers without a modulus. If absent,
  // these two wrap, and all others return OUT_OF_RANGE.
  std::optional<bool> wrap_overflow = std::nullopt;
  // Float operators: treat NaN elements as if they were not there.
  bool ignore_nan = false;
  // matrix_product and affine_compose over integers: compute modulo this, 2 to the largest value of the type.
  std::optional<std::uint64_t> modulus = std::nullopt;
  // variance, stddev and describe: the divisor is the count minus this, which must be finite and not
  // negative, but need not be whole; the result is NaN if nothing is left. The array API calls it the
  // correction.
  double ddof = 0;
  // One of the server's algorithms (docs/textbook.md), such as "last_block", on one stream; empty for the
  // canonical reduction.
  std::string algorithm = {};
};

// Writes bytes [offset, offset + buffer.size()) of the array, little-endian and row-major, to buffer: always
// whole numbers, but not always whole matrices. Called from as many threads as there are streams, in any
// order, and again after a retry.
using Generator = std::function<void(std::uint64_t offset, std::span<std::byte> buffer)>;

}  // namespace warpfold
