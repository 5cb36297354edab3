// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/segments.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/calls/argument_check.h"
#include "client/calls/chunk_stream.h"
#include "client/calls/reducer.h"
#include "client/calls/retry.h"
#include "client/calls/segment_check.h"
#include "client/calls/segment_stream.h"
#include "client/calls/translate.h"
#include "client/calls/wire.h"
#include "client/client.h"
#include "client/connections/status.h"
#include "client/connections/targets.h"
#include "proto/error_reasons.h"
#include "proto/error_texts.h"
#include "proto/shared/steady_time.h"

namespace warpfold {
namespace {

// Whether the cut fits the number of elements. The client checks this first, so that no array is sent in
// vain.
absl::Status CheckCut(const SegmentCut& cut, std::uint64_t element_count) {
  if (cut.length != 0) {
    if (!cut.lengths.empty()) return BadHeader("segments have one length, or lengths: not both");
    if (element_count % cut.length == 0) return absl::OkStatus();
    return BadHeader(
        absl::StrCat(element_count, " elements are not a whole number of segments of ", cut.length));
  }
  std::uint64_t left = element_count;
  for (const std::uint64_t length : cut.lengths) {
    if (length > left)
      return BadHeader(absl::StrCat("the lengths add up to more than the ", element_count, " elements"));
    left -= length;
  }
  if (left == 0) return absl::OkStatus();
  return BadHeader(
      absl::StrCat("the lengths add up to ", left, " less than the ", element_count, " elements"));
}

Scalar ScalarOf(SegmentColumn::Kind kind, std::uint64_t bits) {
  switch (kind) {
    case SegmentColumn::Kind::kInt64:
      return static_cast<std::int64_t>(bits);
    case SegmentColumn::Kind::kDouble:
      return std::bit_cast<double>(bits);
    case SegmentColumn::Kind::kBool:
      return bits != 0;
    default:
      return bits;
  }
}

// The code and the reason are those that the server has for an array; the text is the client's.
absl::Status StatusOf(SegmentFailure::Reason reason, absl::string_view name) {
  if (reason == SegmentFailure::Reason::kOverflow) {
    return MakeOperatorError(absl::StatusCode::kOutOfRange, reason::kOverflow, name,
                             TextOfOverflow(std::string(name)));
  }
  return MakeOperatorError(absl::StatusCode::kInvalidArgument, reason::kEmptyArray, name,
                           TextOfNoValue(std::string(name)));
}

absl::StatusOr<SegmentSummary> Timed(absl::Time start, absl::StatusOr<SegmentSummary> summary) {
  if (summary.ok()) summary->timings.total = SteadyNow() - start;
  return summary;
}

}  // namespace

Scalar SegmentTable::Column::At(std::uint64_t segment) const { return ScalarOf(kind, bits[segment]); }

absl::StatusOr<std::vector<SegmentColumn>> SegmentColumnsOf(const Spec& spec, ElementType type) {
  const absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  if (proto_spec->has_matrix_shape()) return BadHeader("segments are of scalars");
  std::vector<SegmentColumn> columns;
  const v1::SegmentLayout layout = LayoutOf(*proto_spec);
  for (const v1::SegmentColumn& column : layout.columns()) {
    columns.push_back(FromProto(column).value());
  }
  return columns;
}

std::vector<OperatorResult> SegmentResults::Row(std::uint64_t row) const {
  std::vector<OperatorResult> results;
  if (values.empty()) return results;
  const SegmentColumn* before = nullptr;
  for (std::size_t i = 0; i < columns.size(); before = &columns[i++]) {
    const SegmentColumn& column = columns[i];
    if (before == nullptr || before->name != column.name) results.push_back({.name = column.name});
    OperatorResult& result = results.back();
    const std::uint64_t bits = Column(i)[row];
    if (column.content == SegmentColumn::Content::kIndex) {
      if (bits != SegmentColumn::kNoIndex) result.index = bits;
    } else if (column.content == SegmentColumn::Content::kEndIndex) {
      if (bits != SegmentColumn::kNoIndex) result.end_index = bits;
    } else if (column.field.empty()) {
      result.value = ScalarOf(column.kind, bits);
    } else {
      if (!std::holds_alternative<Fields>(result.value)) result.value = Fields();
      std::get<Fields>(result.value).emplace_back(column.field, ScalarOf(column.kind, bits));
    }
  }
  const std::uint64_t segment = first_segment + row;
  const auto is_before = [](const SegmentFailure& failure, std::uint64_t at) { return failure.segment < at; };
  for (auto failure = std::lower_bound(failures.begin(), failures.end(), segment, is_before);
       failure != failures.end() && failure->segment == segment; ++failure) {
    results[failure->op] = {.name = results[failure->op].name,
                            .status = StatusOf(failure->reason, results[failure->op].name)};
  }
  return results;
}

absl::StatusOr<SegmentSummary> Client::ReduceSegmentsSource(const Spec& spec, ElementType type,
                                                            std::uint64_t byte_count,
                                                            const SliceSource& source, const SegmentCut& cut,
                                                            const SegmentVisitor& visitor,
                                                            const CallOptions& options) {
  const absl::Time start = SteadyNow();
  if (!visitor) return BadHeader("there is no visitor");
  absl::Status status = cut.results.has_value() ? CheckCallOfOneTarget(options) : CheckCall(options);
  if (!status.ok()) return status;
  const absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  const std::uint64_t element_bytes = ElementBytes(spec, type);
  if (status = CheckWhole(byte_count, element_bytes); !status.ok()) return status;
  if (status = CheckCut(cut, byte_count / element_bytes); !status.ok()) return status;
  ReduceJob job = JobOf(*proto_spec, source, options);
  job.element_bytes = element_bytes;
  job.element_count = byte_count / element_bytes;
  const auto once = [&](const Connection& connection, const Interrupts& interrupts, Attempt& attempt) {
    return SendSegments(job, cut, visitor, connection, interrupts, &attempt);
  };
  return Timed(start, RunJob(job, targets_->Next(), once));
}

absl::StatusOr<SegmentSummary> Client::ReduceSegmentsOf(const Spec& spec, ElementType type,
                                                        std::span<const std::byte> data,
                                                        const SegmentCut& cut, const SegmentVisitor& visitor,
                                                        const CallOptions& options) {
  return ReduceSegmentsSource(spec, type, data.size(), SourceOf(data), cut, visitor, options);
}

absl::StatusOr<SegmentSummary> Client::ReduceSegmentsGenerated(
    const Spec& spec, ElementType type, std::uint64_t byte_count, const Generator& generator,
    const SegmentCut& cut, const SegmentVisitor& visitor, const CallOptions& options) {
  if (!generator) return NoGenerator();
  return ReduceSegmentsSource(spec, type, byte_count, SourceOf(generator), cut, visitor, options);
}

absl::StatusOr<SegmentSummary> Client::ReduceSegmentsReference(const Spec& spec, ElementType type,
                                                               const ArrayReference& reference,
                                                               const SegmentCut& cut,
                                                               const SegmentVisitor& visitor,
                                                               const CallOptions& options) {
  const absl::Time start = SteadyNow();
  if (!visitor) return BadHeader("there is no visitor");
  if (absl::Status status = CheckCallOfOneTarget(options); !status.ok()) return status;
  const absl::StatusOr<v1::ReductionSpec> proto_spec = ToProto(spec, type);
  if (!proto_spec.ok()) return proto_spec.status();
  if (absl::Status status = CheckCut(cut, reference.element_count); !status.ok()) return status;
  const SliceSource none;
  ReduceJob job = JobOf(*proto_spec, none, options);
  job.element_bytes = ElementBytes(spec, type);
  job.element_count = reference.element_count;
  const auto once = [&](const Connection& connection, const Interrupts& interrupts, Attempt& attempt) {
    return SendSegmentsReference(job, cut, reference, visitor, connection, interrupts, &attempt);
  };
  return Timed(start, RunJob(job, 0, once));
}

absl::StatusOr<SegmentTable> Client::CollectSegments(
    const std::function<absl::StatusOr<SegmentSummary>(const SegmentVisitor&)>& reduce) {
  SegmentTable table;
  absl::StatusOr<SegmentSummary> summary = reduce([&table](const SegmentResults& results) {
    if (results.segment_count == 0) {  // the beginning, perhaps of another attempt
      table = {};
      for (const SegmentColumn& column : results.columns) table.columns.push_back({column, {}});
    }
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const std::span<const std::uint64_t> bits = results.Column(i);
      table.columns[i].bits.insert(table.columns[i].bits.end(), bits.begin(), bits.end());
    }
    table.failures.insert(table.failures.end(), results.failures.begin(), results.failures.end());
  });
  if (!summary.ok()) return summary.status();
  table.summary = *std::move(summary);
  return table;
}

}  // namespace warpfold
