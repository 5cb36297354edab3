// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/answer_check.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/calls/translate.h"
#include "client/connections/status.h"
#include "proto/element_type.h"

namespace warpfold {
namespace {

// What an operator returns, as in the table of docs/operators.md.
enum class Kind : std::uint8_t { kWide, kElement, kMagnitude, kUint64, kDouble, kBool, kMinMax, kDescribe };

// How the protocol carries a scalar.
enum class Carrier : std::uint8_t { kInt64, kUint64, kDouble, kBool };

struct FieldKind {
  absl::string_view name;
  Kind kind;
};
constexpr std::array<FieldKind, 2> kMinMaxFields = {{{"min", Kind::kElement}, {"max", Kind::kElement}}};
constexpr std::array<FieldKind, 6> kDescribeFields = {{{"count", Kind::kUint64},
                                                       {"min", Kind::kElement},
                                                       {"max", Kind::kElement},
                                                       {"sum", Kind::kWide},
                                                       {"mean", Kind::kDouble},
                                                       {"variance", Kind::kDouble}}};

bool HasFields(Kind kind) { return kind == Kind::kMinMax || kind == Kind::kDescribe; }

absl::Span<const FieldKind> FieldsOf(Kind kind) {
  if (kind == Kind::kMinMax) return kMinMaxFields;
  return kDescribeFields;
}

Kind KindOf(v1::Operator op) {
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
      return Kind::kElement;
    case v1::OPERATOR_ALL:
    case v1::OPERATOR_ANY:
      return Kind::kBool;
    case v1::OPERATOR_COUNT_NONZERO:
      return Kind::kUint64;
    case v1::OPERATOR_MAX_ABS:
      return Kind::kMagnitude;
    case v1::OPERATOR_MEAN:
    case v1::OPERATOR_L1_NORM:
    case v1::OPERATOR_L2_NORM:
    case v1::OPERATOR_VARIANCE:
    case v1::OPERATOR_STDDEV:
    case v1::OPERATOR_LOGSUMEXP:
    case v1::OPERATOR_EXACT_SUM:
      return Kind::kDouble;
    case v1::OPERATOR_MINMAX:
      return Kind::kMinMax;
    case v1::OPERATOR_DESCRIBE:
      return Kind::kDescribe;
    default:
      return Kind::kWide;
  }
}

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

Carrier CarrierOf(Kind kind, v1::ElementType type) {
  switch (kind) {
    case Kind::kElement:
      return type == v1::ELEMENT_TYPE_BOOL ? Carrier::kBool : WideCarrier(type);
    case Kind::kMagnitude:
      return WideCarrier(type) == Carrier::kDouble ? Carrier::kDouble : Carrier::kUint64;
    case Kind::kUint64:
      return Carrier::kUint64;
    case Kind::kDouble:
      return Carrier::kDouble;
    case Kind::kBool:
      return Carrier::kBool;
    default:
      return WideCarrier(type);
  }
}

// The numbers that an element, or the magnitude of one, can be. Integers are widened to 64 bits on the way.
class Numbers {
 public:
  Numbers(Kind kind, v1::ElementType type) {
    if (kind != Kind::kElement && kind != Kind::kMagnitude) return;
    const auto bits = static_cast<int>(8 * ElementTypeBytes(static_cast<ElementType>(type)));
    const bool is_signed = WideCarrier(type) == Carrier::kInt64;
    lowest_ = std::numeric_limits<std::int64_t>::min() >> (64 - bits);
    highest_ = ~lowest_;
    largest_ = is_signed ? std::uint64_t{1} << (bits - 1) : ~std::uint64_t{0} >> (64 - bits);
  }
  bool Have(std::int64_t number) const { return lowest_ <= number && number <= highest_; }
  bool Have(std::uint64_t number) const { return number <= largest_; }

  // Result: v1::OperatorResult or v1::Field.
  template <typename Result>
  bool HaveThatOf(const Result& result) const {
    if (result.value_case() == Result::kInt64Value) return Have(std::int64_t{result.int64_value()});
    return result.value_case() != Result::kUint64Value || Have(std::uint64_t{result.uint64_value()});
  }

 private:
  std::int64_t lowest_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t highest_ = std::numeric_limits<std::int64_t>::max();
  std::uint64_t largest_ = std::numeric_limits<std::uint64_t>::max();
};

template <typename Result>
bool IsCarriedBy(Carrier carrier, const Result& result) {
  switch (carrier) {
    case Carrier::kInt64:
      return result.value_case() == Result::kInt64Value;
    case Carrier::kUint64:
      return result.value_case() == Result::kUint64Value;
    case Carrier::kDouble:
      return result.value_case() == Result::kDoubleValue;
    case Carrier::kBool:
      return result.value_case() == Result::kBoolValue;
  }
  return false;
}

int EntriesCarriedBy(Carrier carrier, const v1::MatrixValue& matrix) {
  switch (carrier) {
    case Carrier::kInt64:
      return matrix.int64_entries_size();
    case Carrier::kUint64:
      return matrix.uint64_entries_size();
    case Carrier::kDouble:
      return matrix.double_entries_size();
    case Carrier::kBool:
      return matrix.bool_entries_size();
  }
  return 0;
}

bool IsMatrixOf(Carrier carrier, const Numbers& numbers, const v1::MatrixShape& shape,
                const v1::OperatorResult& result) {
  const v1::MatrixValue& matrix = result.matrix_value();
  if (!result.has_matrix_value() || matrix.rows() != shape.rows() || matrix.columns() != shape.columns()) {
    return false;
  }
  for (const Carrier list : {Carrier::kInt64, Carrier::kUint64, Carrier::kDouble, Carrier::kBool}) {
    const std::uint64_t entries = list == carrier ? std::uint64_t{shape.rows()} * shape.columns() : 0;
    if (static_cast<std::uint64_t>(EntriesCarriedBy(list, matrix)) != entries) return false;
  }
  const auto have = [&numbers](auto entry) { return numbers.Have(entry); };
  return absl::c_all_of(matrix.int64_entries(), have) && absl::c_all_of(matrix.uint64_entries(), have);
}

bool AreFieldsOf(Kind kind, v1::ElementType type, const v1::OperatorResult& result) {
  const absl::Span<const FieldKind> kinds = FieldsOf(kind);
  const auto& fields = result.fields_value().fields();
  if (!result.has_fields_value() || static_cast<std::size_t>(fields.size()) != kinds.size()) return false;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const v1::Field& field = fields[static_cast<int>(i)];
    if (field.name() != kinds[i].name || !IsCarriedBy(CarrierOf(kinds[i].kind, type), field) ||
        !Numbers(kinds[i].kind, type).HaveThatOf(field)) {
      return false;
    }
  }
  return true;
}

bool HasItsKind(const v1::ReductionSpec& spec, v1::Operator op, const v1::OperatorResult& result) {
  const Kind kind = KindOf(op);
  if (HasFields(kind)) return AreFieldsOf(kind, spec.element_type(), result);
  const Carrier carrier = CarrierOf(kind, spec.element_type());
  const Numbers numbers(kind, spec.element_type());
  return spec.has_matrix_shape() ? IsMatrixOf(carrier, numbers, spec.matrix_shape(), result)
                                 : IsCarriedBy(carrier, result) && numbers.HaveThatOf(result);
}

// Indices count from the start of the whole array.
bool HasItsIndex(v1::Operator op, const Stripe& range, const v1::OperatorResult& result) {
  const std::uint64_t end = range.first_element + range.element_count;
  const bool within = result.has_index() && result.index() >= range.first_element && result.index() < end;
  if (op == v1::OPERATOR_ARGMIN || op == v1::OPERATOR_ARGMAX) return within && !result.has_end_index();
  const bool has_none = !result.has_index() && !result.has_end_index();
  // A sum that is NaN has no indices.
  const bool may_have = op == v1::OPERATOR_MAX_SUBARRAY_SUM && !std::isnan(result.double_value());
  if (!may_have) return has_none;
  return within && result.has_end_index() && result.end_index() > result.index() && result.end_index() <= end;
}

v1::SegmentValueKind SegmentKindOf(Carrier carrier) {
  switch (carrier) {
    case Carrier::kInt64:
      return v1::SEGMENT_VALUE_KIND_INT64;
    case Carrier::kUint64:
      return v1::SEGMENT_VALUE_KIND_UINT64;
    case Carrier::kDouble:
      return v1::SEGMENT_VALUE_KIND_DOUBLE;
    case Carrier::kBool:
      return v1::SEGMENT_VALUE_KIND_BOOL;
  }
  return v1::SEGMENT_VALUE_KIND_UNSPECIFIED;
}

// The columns that segments.proto promises for one operator.
void AddColumns(v1::Operator op, v1::ElementType type, v1::SegmentLayout& layout) {
  const auto add = [&](v1::SegmentContent content, Carrier carrier, absl::string_view field) {
    v1::SegmentColumn& column = *layout.add_columns();
    column.set_operator_(op);
    column.set_content(content);
    column.set_kind(SegmentKindOf(carrier));
    column.set_field(std::string(field));
  };
  const Kind kind = KindOf(op);
  if (HasFields(kind)) {
    for (const FieldKind& field : FieldsOf(kind)) {
      add(v1::SEGMENT_CONTENT_VALUE, CarrierOf(field.kind, type), field.name);
    }
  } else {
    add(v1::SEGMENT_CONTENT_VALUE, CarrierOf(kind, type), "");
  }
  const bool is_range = op == v1::OPERATOR_MAX_SUBARRAY_SUM;
  if (is_range || op == v1::OPERATOR_ARGMIN || op == v1::OPERATOR_ARGMAX) {
    add(v1::SEGMENT_CONTENT_INDEX, Carrier::kUint64, "");
  }
  if (is_range) add(v1::SEGMENT_CONTENT_END_INDEX, Carrier::kUint64, "");
}

bool IsSame(const v1::SegmentColumn& a, const v1::SegmentColumn& b) {
  return a.operator_() == b.operator_() && a.content() == b.content() && a.field() == b.field() &&
         a.kind() == b.kind();
}

}  // namespace

absl::Status CheckReduction(const v1::ReductionSpec& spec, const Stripe& range, bool state,
                            const v1::Reduction& reduction) {
  if (reduction.results_size() != spec.operators_size()) {
    return MakeMismatch(
        absl::StrCat(reduction.results_size(), " results for ", spec.operators_size(), " operators"));
  }
  if (reduction.element_count() != range.element_count) {
    return MakeMismatch(
        absl::StrCat("it is of ", reduction.element_count(), " elements, not ", range.element_count));
  }
  bool has_any = false;
  for (int i = 0; i < spec.operators_size(); ++i) {
    const v1::Operator op = spec.operators(i);
    const v1::OperatorResult& result = reduction.results(i);
    if (result.operator_() != op) {
      return MakeMismatch(absl::StrCat("result ", i, " is not that of ", OperatorName(op)));
    }
    const bool has_value = result.value_case() != v1::OperatorResult::VALUE_NOT_SET;
    has_any = has_any || has_value;
    if (!has_value && (state || result.has_error())) continue;
    if (result.has_error()) {
      return MakeMismatch(absl::StrCat(OperatorName(op), " has both a value and an error"));
    }
    if (!HasItsKind(spec, op, result) || !HasItsIndex(op, range, result)) {
      return MakeMismatch(absl::StrCat("this is no result of ", OperatorName(op)));
    }
  }
  // Such a call fails, instead of returning only errors.
  if (!state && !has_any) return MakeMismatch("none of its results has a value");
  if (state && (!reduction.has_state() || reduction.state().first_element() != range.first_element ||
                reduction.state().element_count() != range.element_count)) {
    return MakeMismatch("it lacks the partial state of what was sent");
  }
  return absl::OkStatus();
}

v1::SegmentLayout LayoutOf(const v1::ReductionSpec& spec) {
  v1::SegmentLayout layout;
  for (const int op : spec.operators()) {
    AddColumns(static_cast<v1::Operator>(op), spec.element_type(), layout);
  }
  return layout;
}

absl::Status CheckLayout(const v1::ReductionSpec& spec, const v1::SegmentLayout& layout) {
  const v1::SegmentLayout expected = LayoutOf(spec);
  for (int i = 0; i < expected.columns_size(); ++i) {
    if (i == layout.columns_size() || !IsSame(layout.columns(i), expected.columns(i))) {
      return MakeMismatch(
          absl::StrCat("column ", i, " is not that of ", OperatorName(expected.columns(i).operator_())));
    }
  }
  if (layout.columns_size() == expected.columns_size()) return absl::OkStatus();
  return MakeMismatch("it has more columns than the operators that were asked for");
}

absl::Status CheckServerInfo(const v1::GetServerInfoResponse& info) {
  if (info.version().empty() || !info.has_limits() || info.limits().max_message_bytes() == 0) {
    return MakeMismatch("it lacks the server's version or limits");
  }
  return absl::OkStatus();
}

}  // namespace warpfold
