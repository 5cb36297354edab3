// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/answer_check.h"

#include <cmath>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/calls/result_kinds.h"
#include "client/calls/translate.h"
#include "client/connections/status.h"

namespace warpfold {
namespace {

// Result: v1::OperatorResult or v1::Field.
template <typename Result>
bool IsNumberOf(const Numbers& numbers, const Result& result) {
  if (result.value_case() == Result::kInt64Value) return numbers.Have(std::int64_t{result.int64_value()});
  return result.value_case() != Result::kUint64Value || numbers.Have(std::uint64_t{result.uint64_value()});
}

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

bool AreFieldsOf(ResultKind kind, v1::ElementType type, const v1::OperatorResult& result) {
  const absl::Span<const FieldKind> kinds = FieldsOf(kind);
  const auto& fields = result.fields_value().fields();
  if (!result.has_fields_value() || static_cast<std::size_t>(fields.size()) != kinds.size()) return false;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const v1::Field& field = fields[static_cast<int>(i)];
    if (field.name() != kinds[i].name || !IsCarriedBy(CarrierOf(kinds[i].kind, type), field) ||
        !IsNumberOf(Numbers(kinds[i].kind, type), field)) {
      return false;
    }
  }
  return true;
}

bool HasItsKind(const v1::ReductionSpec& spec, v1::Operator op, const v1::OperatorResult& result) {
  const ResultKind kind = ResultKindOf(op);
  if (!FieldsOf(kind).empty()) return AreFieldsOf(kind, spec.element_type(), result);
  const Carrier carrier = CarrierOf(kind, spec.element_type());
  const Numbers numbers(kind, spec.element_type());
  return spec.has_matrix_shape() ? IsMatrixOf(carrier, numbers, spec.matrix_shape(), result)
                                 : IsCarriedBy(carrier, result) && IsNumberOf(numbers, result);
}

// Indices count from the start of the whole array.
bool HasItsIndices(v1::Operator op, const Stripe& range, const v1::OperatorResult& result) {
  int count = IndicesOf(op);
  if (count == 2 && std::isnan(result.double_value())) count = 0;  // such a sum has no indices
  if (result.has_index() != (count > 0) || result.has_end_index() != (count > 1)) return false;
  if (count == 0) return true;
  const std::uint64_t end = count > 1 ? result.end_index() : result.index() + 1;
  return range.first_element <= result.index() && result.index() < end &&
         end <= range.first_element + range.element_count;
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
    if (!HasItsKind(spec, op, result) || !HasItsIndices(op, range, result)) {
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

absl::Status CheckServerInfo(const v1::GetServerInfoResponse& info) {
  if (info.version().empty() || !info.has_limits() || info.limits().max_message_bytes() == 0) {
    return MakeMismatch("it lacks the server's version or limits");
  }
  return absl::OkStatus();
}

}  // namespace warpfold
