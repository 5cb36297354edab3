// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a segment's state becomes its row of results: the same source for all backends. No abseil: device code
// includes this.
#pragma once

#include <concepts>
#include <cstdint>

#include "kernels/operators/bitwise.h"
#include "kernels/operators/traits.h"
#include "kernels/types.h"

namespace warpfold::kernels {

// Where the results of one operator go: a column of 8-byte values for each of its fields, then columns for
// the index and the end index, if it has them.
struct SegmentOut {
  std::uint64_t* values = nullptr;
  std::uint64_t stride = 0;         // values from one column to the next
  std::uint32_t index_columns = 0;  // 0, 1 or 2
  // The true type of integers that a backend reads as 64-bit ones; 0 bits if it is the element type.
  struct {
    std::uint32_t bits = 0;
    bool is_signed = false;
    bool is_bool = false;
  } element;
  std::uint8_t* errors = nullptr;  // an Outcome::Error for each segment; written only if there is one
};

template <Operator Op>
WARPFOLD_FN Outcome FinishField(const Op& op, const typename Op::State& state, std::uint64_t count,
                                std::uint32_t field) {
  if (count == 0 && !Op::kHasIdentity) return {.error = Outcome::Error::kEmpty};
  if constexpr (HasFields<Op>) {
    return op.FinishField(state, count, field);
  } else {
    return op.Finish(state, count);
  }
}

WARPFOLD_FN std::uint64_t ColumnBits(const Scalar& value) {
  if (value.kind == Scalar::Kind::kBool) return value.bool_value ? 1 : 0;
  if (value.kind == Scalar::Kind::kDouble) return BitCast<std::uint64_t>(value.double_value);
  return value.uint64_value;
}

template <class Op>
concept BitwiseOperator =
    IntegerElement<typename Op::Element> && std::derived_from<Op, Bitwise<typename Op::Element> >;

// Whether the operator's result, or this field of it, has no more bits than the element.
template <class Op>
WARPFOLD_FN bool IsNarrow(const Op& op, std::uint32_t field) {
  if constexpr (BitwiseOperator<Op> || EndOperator<Op>) {
    return IntegerElement<typename Op::Element>;
  } else if constexpr (MayWrap<Op>) {
    return op.wrap && field == WrappedField<Op>();
  } else {
    return false;
  }
}

// An integer's lowest bits, with their sign if elements have one.
WARPFOLD_FN std::uint64_t Narrowed(std::uint64_t value, std::uint32_t bits, bool is_signed) {
  const std::uint32_t unused = 64 - bits;
  if (is_signed) return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
  return value << unused >> unused;
}

// Writes the results of segment `segment`, of `count` elements; false if there is an error, which is then
// written too, and the results are zeros and no index.
template <Operator Op>
WARPFOLD_FN bool FinishSegment(const Op& op, const typename Op::State& state, std::uint64_t count,
                               std::uint64_t segment, const SegmentOut& out) {
  Outcome last;
  Outcome::Error error = Outcome::Error::kNone;
  for (std::uint32_t field = 0; field < FieldCount<Op>(); ++field) {
    last = FinishField(op, state, count, field);
    if (error == Outcome::Error::kNone) error = last.error;
    std::uint64_t bits = last.error == Outcome::Error::kNone ? ColumnBits(last.value) : 0;
    if (out.element.bits != 0 && last.value.kind != Scalar::Kind::kDouble && IsNarrow(op, field)) {
      bits = Narrowed(bits, BitwiseOperator<Op> && out.element.is_bool ? 1 : out.element.bits,
                      out.element.is_signed);
    }
    out.values[field * out.stride + segment] = bits;
  }
  const bool is_error = error != Outcome::Error::kNone;
  std::uint64_t* const indices = out.values + FieldCount<Op>() * out.stride + segment;
  if (out.index_columns > 0) indices[0] = is_error ? Outcome::kNoIndex : last.index;
  if (out.index_columns > 1) indices[out.stride] = is_error ? Outcome::kNoIndex : last.end_index;
  if (!is_error) return true;
  for (std::uint32_t field = 0; field < FieldCount<Op>(); ++field) {
    out.values[field * out.stride + segment] = 0;
  }
  out.errors[segment] = static_cast<std::uint8_t>(error);
  return false;
}

}  // namespace warpfold::kernels
