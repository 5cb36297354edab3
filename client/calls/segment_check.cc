// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/calls/segment_check.h"

#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "client/calls/translate.h"
#include "client/connections/status.h"

namespace warpfold {
namespace {

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

struct ColumnFacts {
  v1::SegmentContent content;
  ResultKind kind;
  absl::string_view field;
};

// The columns that segments.proto promises for one operator.
std::vector<ColumnFacts> ColumnsOf(v1::Operator op) {
  std::vector<ColumnFacts> columns;
  const ResultKind kind = ResultKindOf(op);
  for (const FieldKind& field : FieldsOf(kind)) {
    columns.push_back({v1::SEGMENT_CONTENT_VALUE, field.kind, field.name});
  }
  if (columns.empty()) columns.push_back({v1::SEGMENT_CONTENT_VALUE, kind, ""});
  if (IndicesOf(op) > 0) columns.push_back({v1::SEGMENT_CONTENT_INDEX, ResultKind::kUint64, ""});
  if (IndicesOf(op) > 1) columns.push_back({v1::SEGMENT_CONTENT_END_INDEX, ResultKind::kUint64, ""});
  return columns;
}

bool IsSame(const v1::SegmentColumn& a, const v1::SegmentColumn& b) {
  return a.operator_() == b.operator_() && a.content() == b.content() && a.field() == b.field() &&
         a.kind() == b.kind();
}

std::optional<SegmentColumn::Content> ContentOf(v1::SegmentContent content) {
  switch (content) {
    case v1::SEGMENT_CONTENT_VALUE:
      return SegmentColumn::Content::kValue;
    case v1::SEGMENT_CONTENT_INDEX:
      return SegmentColumn::Content::kIndex;
    case v1::SEGMENT_CONTENT_END_INDEX:
      return SegmentColumn::Content::kEndIndex;
    default:
      return std::nullopt;
  }
}

std::optional<SegmentColumn::Kind> ColumnKindOf(v1::SegmentValueKind kind) {
  switch (kind) {
    case v1::SEGMENT_VALUE_KIND_INT64:
      return SegmentColumn::Kind::kInt64;
    case v1::SEGMENT_VALUE_KIND_UINT64:
      return SegmentColumn::Kind::kUint64;
    case v1::SEGMENT_VALUE_KIND_DOUBLE:
      return SegmentColumn::Kind::kDouble;
    case v1::SEGMENT_VALUE_KIND_BOOL:
      return SegmentColumn::Kind::kBool;
    default:
      return std::nullopt;
  }
}

bool IsValue(SegmentColumn::Kind kind, const Numbers& numbers, std::uint64_t bits) {
  switch (kind) {
    case SegmentColumn::Kind::kInt64:
      return numbers.Have(static_cast<std::int64_t>(bits));
    case SegmentColumn::Kind::kUint64:
      return numbers.Have(bits);
    case SegmentColumn::Kind::kBool:
      return bits <= 1;
    case SegmentColumn::Kind::kDouble:
      return true;
  }
  return false;
}

bool Fails(const SegmentResults& results, std::uint64_t segment, std::size_t op) {
  const auto is_before = [](const SegmentFailure& failure, const std::pair<std::uint64_t, std::size_t>& at) {
    return std::pair(failure.segment, failure.op) < at;
  };
  const auto found = absl::c_lower_bound(results.failures, std::pair(segment, op), is_before);
  return found != results.failures.end() && found->segment == segment && found->op == op;
}

}  // namespace

v1::SegmentLayout LayoutOf(const v1::ReductionSpec& spec) {
  v1::SegmentLayout layout;
  for (const int op : spec.operators()) {
    for (const ColumnFacts& facts : ColumnsOf(static_cast<v1::Operator>(op))) {
      v1::SegmentColumn& column = *layout.add_columns();
      column.set_operator_(static_cast<v1::Operator>(op));
      column.set_content(facts.content);
      column.set_kind(SegmentKindOf(CarrierOf(facts.kind, spec.element_type())));
      column.set_field(std::string(facts.field));
    }
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

std::optional<SegmentColumn> FromProto(const v1::SegmentColumn& column) {
  const auto content = ContentOf(column.content());
  const auto kind = ColumnKindOf(column.kind());
  if (!content.has_value() || !kind.has_value()) return std::nullopt;
  return SegmentColumn{OperatorName(column.operator_()), *content, column.field(), *kind};
}

SegmentCheck::SegmentCheck(const v1::ReductionSpec& spec, const SegmentCut& cut) : cut_(cut) {
  std::size_t column = 0;
  for (const int number : spec.operators()) {
    Operator op = {.first_column = column, .values = {}, .index_count = 0};
    for (const ColumnFacts& facts : ColumnsOf(static_cast<v1::Operator>(number))) {
      if (facts.content == v1::SEGMENT_CONTENT_VALUE) {
        op.values.emplace_back(facts.kind, spec.element_type());
      } else {
        ++op.index_count;
      }
    }
    column = op.end();
    operators_.push_back(std::move(op));
  }
}

absl::Status SegmentCheck::Check(const SegmentResults& results) const {
  for (std::size_t position = 0; position < operators_.size(); ++position) {
    const Operator& op = operators_[position];
    if (!AreValues(results, op) || !AreIndices(results, position)) {
      return MakeMismatch(absl::StrCat("this is no result of ", results.columns[op.first_column].name));
    }
  }
  if (!AreFailures(results)) return MakeMismatch("a segment has both a value and an error");
  return absl::OkStatus();
}

bool SegmentCheck::AreValues(const SegmentResults& results, const Operator& op) const {
  for (std::size_t i = 0; i < op.values.size(); ++i) {
    const std::size_t column = op.first_column + i;
    const SegmentColumn::Kind kind = results.columns[column].kind;
    // There may be very many values, and most columns can have any.
    const bool is_any = op.values[i].HaveAll() && kind != SegmentColumn::Kind::kBool;
    if (is_any || kind == SegmentColumn::Kind::kDouble) continue;
    const auto is_value = [&](std::uint64_t bits) { return IsValue(kind, op.values[i], bits); };
    if (!absl::c_all_of(results.Column(column), is_value)) return false;
  }
  return true;
}

bool SegmentCheck::AreIndices(const SegmentResults& results, std::size_t position) const {
  const Operator& op = operators_[position];
  if (op.index_count == 0) return true;
  const std::span<const std::uint64_t> begins = results.Column(op.first_index());
  const std::span<const std::uint64_t> ends = results.Column(op.end() - 1);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::uint64_t segment = results.first_segment + i;
    // A sum that is NaN has no indices.
    const bool is_nan = op.index_count == 2 &&
                        results.columns[op.first_column].kind == SegmentColumn::Kind::kDouble &&
                        std::isnan(std::bit_cast<double>(results.Column(op.first_column)[i]));
    if (is_nan || begins[i] == SegmentColumn::kNoIndex) {
      const bool has_none = begins[i] == SegmentColumn::kNoIndex && ends[i] == SegmentColumn::kNoIndex;
      if (!has_none || !(is_nan || Fails(results, segment, position))) return false;
      continue;
    }
    const std::uint64_t end = op.index_count == 2 ? ends[i] : begins[i] + 1;
    const std::uint64_t length = cut_.length != 0 ? cut_.length : cut_.lengths[segment];
    if (begins[i] >= end || end > length) return false;
  }
  return true;
}

bool SegmentCheck::AreFailures(const SegmentResults& results) const {
  for (const SegmentFailure& failure : results.failures) {
    const Operator& op = operators_[failure.op];
    for (std::size_t column = op.first_column; column < op.end(); ++column) {
      const std::uint64_t nothing = column < op.first_index() ? 0 : SegmentColumn::kNoIndex;
      if (results.Column(column)[failure.segment - results.first_segment] != nothing) return false;
    }
  }
  return true;
}

}  // namespace warpfold
