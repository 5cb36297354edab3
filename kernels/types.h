// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What an array is made of. No gRPC, no CUDA, no abseil: device code includes this.
#pragma once

#include <cstdint>

#include "proto/element_type.h"

namespace warpfold::kernels {

using warpfold::ElementType;

// The shape of one element. 0 x 0 is a scalar; a matrix is row-major, 1 to kMaxMatrixDimension each way.
struct ElementShape {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;

  constexpr bool is_matrix() const { return rows != 0; }
  constexpr std::uint32_t entries() const { return is_matrix() ? rows * columns : 1; }
  friend constexpr bool operator==(ElementShape a, ElementShape b) = default;
};
inline constexpr std::uint32_t kMaxMatrixDimension = 32;
// Operators over square matrices know their dimension at compile time up to this one.
inline constexpr std::uint32_t kMaxFixedDimension = 8;

// Operators over whole matrices are tabled by shape: d x d matrices at index d, all larger ones at the next,
// 1 x 2 ones at the last.
inline constexpr std::uint32_t kLargeIndex = kMaxFixedDimension + 1;
inline constexpr std::uint32_t kPairIndex = kLargeIndex + 1;
inline constexpr std::uint32_t kWholeShapes = kPairIndex + 1;
constexpr std::uint32_t WholeIndex(ElementShape shape) {
  if (shape.rows == 1 && shape.columns == 2) return kPairIndex;
  if (shape.rows != shape.columns) return 0;  // no operator takes them
  return shape.rows <= kMaxFixedDimension ? shape.rows : kLargeIndex;
}

// Run-time parameters of operators.
struct OperatorParameters {
  // sum, product and sum_of_squares of integers, and the sum of describe: two's complement in the element
  // type instead of an overflow error.
  bool wrap_overflow = false;
  // matrix_product and affine_compose over integers: 0 for the ring modulo 2^bits, else 2 to the type's
  // largest value.
  std::uint64_t modulus = 0;
  // variance, stddev and describe: the divisor is count - ddof.
  double ddof = 0;
};

// One entry of a result.
struct Scalar {
  enum class Kind : std::uint8_t { kInt64, kUint64, kDouble, kBool };

  Kind kind = Kind::kUint64;
  union {
    std::int64_t int64_value;
    std::uint64_t uint64_value = 0;
    double double_value;
    bool bool_value;
  };

  static constexpr Scalar Of(std::int64_t v) { return Scalar(Kind::kInt64, v); }
  static constexpr Scalar Of(std::uint64_t v) { return Scalar(Kind::kUint64, v); }
  static constexpr Scalar Of(double v) { return Scalar(v); }
  static constexpr Scalar Of(bool v) { return Scalar(v); }

  constexpr Scalar() = default;

 private:
  constexpr Scalar(Kind k, std::int64_t v) : kind(k), int64_value(v) {}
  constexpr Scalar(Kind k, std::uint64_t v) : kind(k), uint64_value(v) {}
  constexpr explicit Scalar(double v) : kind(Kind::kDouble), double_value(v) {}
  constexpr explicit Scalar(bool v) : kind(Kind::kBool), bool_value(v) {}
};

// What an operator makes of its final state.
struct Outcome {
  enum class Error : std::uint8_t {
    kNone,
    kOverflow,  // the exact value does not fit
    kEmpty,     // no elements (or only ignored ones), and the operator has no identity
  };
  static constexpr std::uint64_t kNoIndex = ~std::uint64_t{0};

  Scalar value = {};
  std::uint64_t index = kNoIndex;      // argmin, argmax, max_subarray_sum: of the first element
  std::uint64_t end_index = kNoIndex;  // max_subarray_sum: of the element after the last one
  Error error = Error::kNone;
};

}  // namespace warpfold::kernels
