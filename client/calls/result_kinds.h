// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// What each operator returns, for the checks of answers. Internal.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "warpfold/v1/reduction.pb.h"

namespace warpfold {

// These are the results in the table of docs/operators.md.
enum class ResultKind : std::uint8_t {
  kWide,
  kElement,
  kMagnitude,
  kUint64,
  kDouble,
  kBool,
  kMinMax,
  kDescribe,
};
ResultKind ResultKindOf(v1::Operator op);

struct FieldKind {
  absl::string_view name;
  ResultKind kind;
};
// Only kMinMax and kDescribe have fields.
absl::Span<const FieldKind> FieldsOf(ResultKind kind);

// How many indices a result over scalars has.
int IndicesOf(v1::Operator op);

// How the protocol carries a scalar.
enum class Carrier : std::uint8_t { kInt64, kUint64, kDouble, kBool };
// The kind must not have fields.
Carrier CarrierOf(ResultKind kind, v1::ElementType type);

// The integers that a result of this kind can be. An element, or the magnitude of one, is widened to 64 bits
// on the way, and not all of those are elements.
class Numbers {
 public:
  Numbers(ResultKind kind, v1::ElementType type);

  // Whether these are all numbers of 64 bits, so that none has to be looked at.
  bool HaveAll() const {
    return lowest_ == std::numeric_limits<std::int64_t>::min() &&
           largest_ == std::numeric_limits<std::uint64_t>::max();
  }
  bool Have(std::int64_t number) const { return lowest_ <= number && number <= highest_; }
  bool Have(std::uint64_t number) const { return number <= largest_; }

 private:
  std::int64_t lowest_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t highest_ = std::numeric_limits<std::int64_t>::max();
  std::uint64_t largest_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace warpfold
