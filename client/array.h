// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What an array is made of, and what to compute of it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace warpfold {

// The type of a scalar element, or of one entry of a matrix. The numbers are those of the protocol.
enum class ElementType : std::uint8_t {
  kInt32 = 1,
  kInt64 = 2,
  kUint32 = 3,
  kUint64 = 4,
  kFloat32 = 5,
  kFloat64 = 6,
};

// By NumPy's name, as "int32".
std::optional<ElementType> ElementTypeByName(absl::string_view name);
absl::string_view ElementTypeName(ElementType type);
std::size_t ElementTypeBytes(ElementType type);

template <typename T>
concept Element =
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint32_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, float> || std::same_as<T, double>;

// A vector, an array or a span of a C++ type that is an element type.
template <typename R>
concept ElementRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Element<std::ranges::range_value_t<R>>;

template <Element T>
constexpr ElementType ElementTypeOf() {
  if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? ElementType::kFloat32 : ElementType::kFloat64;
  if constexpr (std::signed_integral<T>) return sizeof(T) == 4 ? ElementType::kInt32 : ElementType::kInt64;
  return sizeof(T) == 4 ? ElementType::kUint32 : ElementType::kUint64;
}

// The shape of each element of an array of matrices, row-major.
struct MatrixShape {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  friend bool operator==(MatrixShape, MatrixShape) = default;
};

// What to compute. docs/operators.md describes each operator.
struct Spec {
  // Names, as "sum"; one to 16, without repetition, all computed over one pass of the data.
  std::vector<std::string> operators = {};
  // Absent for an array of scalars.
  std::optional<MatrixShape> matrix_shape = std::nullopt;
  // Integer sum and product: two's complement in the element type instead of OUT_OF_RANGE.
  bool wrap_overflow = false;
  // Float operators: as if the NaN elements were not there.
  bool ignore_nan = false;
  // matrix_product over integers: multiply modulo this.
  std::optional<std::uint64_t> modulus = std::nullopt;
  // One of the server's algorithms (docs/textbook.md), as "last_block", on one stream; empty for the
  // canonical reduction.
  std::string algorithm = {};
};

}  // namespace warpfold
