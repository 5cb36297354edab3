// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/segment_results.h"

#include <algorithm>
#include <array>
#include <span>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "kernels/operators/table.h"
#include "kernels/segment_row.h"
#include "server/core/limits.h"
#include "server/core/wire/operator_names.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

constexpr std::size_t kMaxVarintBytes = 10;

v1::SegmentContent ContentOf(kernels::SegmentColumn::What what) {
  switch (what) {
    case kernels::SegmentColumn::What::kValue:
      return v1::SEGMENT_CONTENT_VALUE;
    case kernels::SegmentColumn::What::kIndex:
      return v1::SEGMENT_CONTENT_INDEX;
    case kernels::SegmentColumn::What::kEndIndex:
      return v1::SEGMENT_CONTENT_END_INDEX;
  }
  return v1::SEGMENT_CONTENT_UNSPECIFIED;
}

v1::SegmentValueKind KindOf(kernels::Scalar::Kind kind) {
  switch (kind) {
    case kernels::Scalar::Kind::kInt64:
      return v1::SEGMENT_VALUE_KIND_INT64;
    case kernels::Scalar::Kind::kUint64:
      return v1::SEGMENT_VALUE_KIND_UINT64;
    case kernels::Scalar::Kind::kDouble:
      return v1::SEGMENT_VALUE_KIND_DOUBLE;
    case kernels::Scalar::Kind::kBool:
      return v1::SEGMENT_VALUE_KIND_BOOL;
  }
  return v1::SEGMENT_VALUE_KIND_UNSPECIFIED;
}

// How many operators may have an error instead of a value of the same segment.
std::size_t MostErrors(const kernels::ReductionPlan& reduction, bool may_be_empty) {
  // A segment without elements, or with none that count.
  const bool may_lack_elements = may_be_empty || reduction.spec().ignore_nan;
  return static_cast<std::size_t>(
      std::ranges::count_if(reduction.operators(), [&](const kernels::BoundOperator& op) {
        const bool may_overflow = op.entry->may_overflow && !reduction.spec().wrap_overflow;
        return may_overflow || (may_lack_elements && !op.entry->has_identity);
      }));
}

void Add(const kernels::SegmentError& error, std::uint64_t segment, v1::SegmentResults& results) {
  v1::SegmentError& added = *results.add_errors();
  added.set_segment(segment);
  added.set_operator_position(static_cast<std::uint32_t>(error.op));
  added.set_reason(error.error == kernels::Outcome::Error::kOverflow ? v1::SEGMENT_ERROR_REASON_OVERFLOW
                                                                     : v1::SEGMENT_ERROR_REASON_EMPTY_ARRAY);
}

void AppendField(int number, std::uint64_t bytes, std::string& out) {
  std::array<std::uint8_t, 2 * kMaxVarintBytes> field = {};
  std::uint8_t* const length =
      WireFormatLite::WriteTagToArray(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, field.data());
  const std::uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(bytes, length);
  out.append(reinterpret_cast<const char*>(field.data()), reinterpret_cast<const char*>(end));
}

// A ReduceSegmentsResponse with `results`, up to their values, which follow: protobuf would make two more
// copies of those bytes.
std::string BeforeValues(const v1::SegmentResults& results, std::size_t value_bytes) {
  std::string inner = results.SerializeAsString();
  AppendField(v1::SegmentResults::kValuesFieldNumber, value_bytes, inner);
  std::string message;
  message.reserve(2 * kMaxVarintBytes + inner.size() + value_bytes);
  AppendField(v1::ReduceSegmentsResponse::kResultsFieldNumber, inner.size() + value_bytes, message);
  message.append(inner);
  return message;
}

}  // namespace

SegmentResults::SegmentResults(const kernels::ReductionPlan& reduction, bool may_be_empty)
    : reduction_(reduction), layout_(reduction), most_errors_(MostErrors(reduction, may_be_empty)) {}

std::size_t SegmentResults::most_bytes_of_segment() const {
  // A tag and a length, and of its fields a segment's number of 64 bits, a position and a reason.
  constexpr std::size_t kErrorBytes = 2 + 11 + 2 + 2;
  return row_bytes() + most_errors_ * kErrorBytes;
}

std::string SegmentResults::Layout() const {
  v1::ReduceSegmentsResponse response;
  for (const kernels::SegmentColumn& column : layout_.columns()) {
    v1::SegmentColumn& added = *response.mutable_layout()->add_columns();
    added.set_operator_(OperatorByName(reduction_.spec().operators[column.op]));
    added.set_content(ContentOf(column.what));
    added.set_kind(KindOf(column.kind));
    const std::span<const char* const> fields = reduction_.operators()[column.op].entry->fields;
    const bool is_field = column.what == kernels::SegmentColumn::What::kValue && !fields.empty();
    if (is_field) added.set_field(fields[column.field]);
  }
  return response.SerializeAsString();
}

std::vector<std::string> SegmentResults::Encode(std::uint64_t first_segment,
                                                const kernels::SegmentsResult& result,
                                                bool has_values) const {
  const bool is_short = !has_values && result.errors.empty();
  const std::uint64_t rows_at_most =
      is_short ? result.segment_count : std::max<std::uint64_t>(kMaxResultBytes / layout_.row_bytes(), 1);
  std::vector<std::string> messages;
  auto error = result.errors.begin();
  for (std::uint64_t begin = 0; begin < result.segment_count; begin += rows_at_most) {
    const std::uint64_t rows = std::min(rows_at_most, result.segment_count - begin);
    v1::SegmentResults results;
    results.set_first_segment(first_segment + begin);
    results.set_segment_count(rows);
    for (; error != result.errors.end() && error->segment < begin + rows; ++error) {
      Add(*error, first_segment + error->segment, results);
    }
    std::string message = BeforeValues(results, has_values ? rows * layout_.row_bytes() : 0);
    for (std::size_t column = 0; has_values && column < layout_.columns().size(); ++column) {
      const std::span<const std::uint64_t> part = result.Column(column).subspan(begin, rows);
      message.append(reinterpret_cast<const char*>(part.data()), part.size_bytes());
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

kernels::SegmentRow SegmentResults::RowOf(const kernels::PartialState& state) const {
  return kernels::RowOfSegment(layout_, state);
}

std::string SegmentResults::Encode(std::uint64_t segment, const kernels::SegmentRow& row,
                                   bool has_values) const {
  v1::ReduceSegmentsResponse response;
  v1::SegmentResults& results = *response.mutable_results();
  results.set_first_segment(segment);
  results.set_segment_count(1);
  if (has_values) results.set_values(row.values.data(), row.values.size() * sizeof(std::uint64_t));
  for (const kernels::SegmentError& error : row.errors) Add(error, segment, results);
  return response.SerializeAsString();
}

}  // namespace warpfold::server
