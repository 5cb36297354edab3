// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/result_kinds.h"

#include <array>

#include "proto/element_type.h"

namespace warpfold {
namespace {

constexpr std::array<FieldKind, 2> kMinMaxFields = {
    {{"min", ResultKind::kElement}, {"max", ResultKind::kElement}}};
constexpr std::array<FieldKind, 6> kDescribeFields = {{{"count", ResultKind::kUint64},
                                                       {"min", ResultKind::kElement},
                                                       {"max", ResultKind::kElement},
                                                       {"sum", ResultKind::kWide},
                                                       {"mean", ResultKind::kDouble},
                                                       {"variance", ResultKind::kDouble}}};

Carrier WideCarrier(v1::ElementType type) {
  switch (type) {
    case v1::ELEMENT_TYPE_INT8:
    case v1::ELEMENT_TYPE_INT16:
    case v1::ELEMENT_TYPE_INT32:
    case v1::ELEMENT_TYPE_INT64:
      return Carrier::kInt64;
    case v1::ELEMENT_TYPE_FLOAT16:
    case v1::ELEMENT_TYPE_BFLOAT16:
    case v1::ELEMENT_TYPE_FLOAT32:
    case v1::ELEMENT_TYPE_FLOAT64:
      return Carrier::kDouble;
    default:
      return Carrier::kUint64;
  }
}

}  // namespace

ResultKind ResultKindOf(v1::Operator op) {
  switch (op) {
    case v1::OPERATOR_MIN:
    case v1::OPERATOR_MAX:
    case v1::OPERATOR_ARGMIN:
    case v1::OPERATOR_ARGMAX:
    case v1::OPERATOR_BIT_AND:
    case v1::OPERATOR_BIT_OR:
    case v1::OPERATOR_BIT_XOR:
    case v1::OPERATOR_FIRST:
    case v1::OPERATOR_LAST:
      return ResultKind::kElement;
    case v1::OPERATOR_ALL:
    case v1::OPERATOR_ANY:
      return ResultKind::kBool;
    case v1::OPERATOR_COUNT_NONZERO:
      return ResultKind::kUint64;
    case v1::OPERATOR_MAX_ABS:
      return ResultKind::kMagnitude;
    case v1::OPERATOR_MEAN:
    case v1::OPERATOR_L1_NORM:
    case v1::OPERATOR_L2_NORM:
    case v1::OPERATOR_VARIANCE:
    case v1::OPERATOR_STDDEV:
    case v1::OPERATOR_LOGSUMEXP:
    case v1::OPERATOR_EXACT_SUM:
      return ResultKind::kDouble;
    case v1::OPERATOR_MINMAX:
      return ResultKind::kMinMax;
    case v1::OPERATOR_DESCRIBE:
      return ResultKind::kDescribe;
    default:
      return ResultKind::kWide;
  }
}

absl::Span<const FieldKind> FieldsOf(ResultKind kind) {
  if (kind == ResultKind::kMinMax) return kMinMaxFields;
  if (kind == ResultKind::kDescribe) return kDescribeFields;
  return {};
}

int IndicesOf(v1::Operator op) {
  if (op == v1::OPERATOR_MAX_SUBARRAY_SUM) return 2;
  return op == v1::OPERATOR_ARGMIN || op == v1::OPERATOR_ARGMAX ? 1 : 0;
}

Carrier CarrierOf(ResultKind kind, v1::ElementType type) {
  switch (kind) {
    case ResultKind::kElement:
      return type == v1::ELEMENT_TYPE_BOOL ? Carrier::kBool : WideCarrier(type);
    case ResultKind::kMagnitude:
      return WideCarrier(type) == Carrier::kDouble ? Carrier::kDouble : Carrier::kUint64;
    case ResultKind::kUint64:
      return Carrier::kUint64;
    case ResultKind::kDouble:
      return Carrier::kDouble;
    case ResultKind::kBool:
      return Carrier::kBool;
    default:
      return WideCarrier(type);
  }
}

Numbers::Numbers(ResultKind kind, v1::ElementType type) {
  if (kind != ResultKind::kElement && kind != ResultKind::kMagnitude) return;
  const auto bits = static_cast<int>(8 * ElementTypeBytes(static_cast<ElementType>(type)));
  const bool is_signed = WideCarrier(type) == Carrier::kInt64;
  lowest_ = std::numeric_limits<std::int64_t>::min() >> (64 - bits);
  highest_ = ~lowest_;
  largest_ = is_signed ? std::uint64_t{1} << (bits - 1) : ~std::uint64_t{0} >> (64 - bits);
}

}  // namespace warpfold
