// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/segments.h"

#include <array>
#include <map>
#include <numeric>

#include "kernels/backend.h"
#include "kernels/error.h"
#include "kernels/operators/table.h"
#include "kernels/partial_state.h"
#include "proto/error_reasons.h"

namespace warpfold::kernels {
namespace {

// A result of the operator, which shows what all its results have: that of an array of one element, 0, for
// which every operator has a result. Each thread keeps it, since a layout is made for each start of a slot.
const OperatorValue& ExampleOf(const ReductionPlan& reduction, std::size_t op) {
  thread_local std::map<const OperatorEntry*, OperatorValue> known;
  const OperatorEntry* const entry = reduction.operators()[op].entry;
  auto example = known.find(entry);
  if (example == known.end()) {
    constexpr std::array<std::byte, 8> kZero = {};
    const PartialState one = ReduceOnHost(reduction, 0, std::span(kZero).first(reduction.element_bytes()));
    example = known.emplace(entry, one.Finish(op).value()).first;
  }
  return example->second;
}

}  // namespace

std::uint64_t SegmentCut::ElementCount() const {
  if (lengths.empty()) return segment_count * length;
  return std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
}

SegmentLayout::SegmentLayout(const ReductionPlan& reduction) {
  for (std::size_t op = 0; op < reduction.operators().size(); ++op) {
    const OperatorValue& value = ExampleOf(reduction, op);
    first_columns_.push_back(columns_.size());
    for (std::size_t field = 0; field < value.entries.size(); ++field) {
      columns_.push_back({op, SegmentColumn::What::kValue, field, value.entries[field].kind});
    }
    if (value.index.has_value()) columns_.push_back({.op = op, .what = SegmentColumn::What::kIndex});
    if (value.end_index.has_value()) columns_.push_back({.op = op, .what = SegmentColumn::What::kEndIndex});
    index_columns_.push_back(value.index.has_value() + value.end_index.has_value());
  }
}

absl::Status CheckSegments(const ReductionPlan& reduction) {
  const auto refuse = [](absl::string_view field, absl::string_view message) {
    return Error(absl::StatusCode::kInvalidArgument, reason::kBadHeader, message,
                 {{"field", std::string(field)}});
  };
  if (reduction.spec().shape.is_matrix()) {
    return refuse("matrix_shape", "matrix_shape: segments are of scalars");
  }
  if (!reduction.canonical()) return refuse("algorithm", "algorithm: segments are reduced by AUTO only");
  return absl::OkStatus();
}

std::vector<SegmentError> CollectErrors(std::span<const std::uint8_t> flags, std::uint64_t segment_count) {
  std::vector<SegmentError> errors;
  const std::size_t operators = flags.size() / segment_count;
  for (std::uint64_t segment = 0; segment < segment_count; ++segment) {
    for (std::size_t op = 0; op < operators; ++op) {
      const std::uint8_t flag = flags[op * segment_count + segment];
      if (flag != 0) errors.push_back({segment, op, static_cast<Outcome::Error>(flag)});
    }
  }
  return errors;
}

}  // namespace warpfold::kernels
