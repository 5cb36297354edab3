// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks that results of segments are possible for the request, as answer_check.h does for whole arrays; it
// does not check which segments fail. All errors from here are INTERNAL. Internal.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "client/calls/result_kinds.h"
#include "client/segments.h"
#include "warpfold/v1/segments.pb.h"

namespace warpfold {

// The columns of segments' results: those of each operator, in the order of operators.
v1::SegmentLayout LayoutOf(const v1::ReductionSpec& spec);
// Checks that the layout has these columns.
absl::Status CheckLayout(const v1::ReductionSpec& spec, const v1::SegmentLayout& layout);

// Nothing if its content or its kind is unknown to this library.
std::optional<SegmentColumn> FromProto(const v1::SegmentColumn& column);

// Checks values and indices.
class SegmentCheck {
 public:
  // `cut` must outlive it.
  SegmentCheck(const v1::ReductionSpec& spec, const SegmentCut& cut);

  // Checks that values are among those of the element's type, that indices are there and within their
  // segments, and that failures have neither. `results` has values in the columns of LayoutOf, and its
  // failures are of its segments, in their order.
  absl::Status Check(const SegmentResults& results) const;

 private:
  // Its columns in a layout are adjacent: those of values, and then those of indices.
  struct Operator {
    std::size_t first_column;
    std::vector<Numbers> values;  // what each value's column can have
    std::size_t index_count;

    std::size_t first_index() const { return first_column + values.size(); }
    std::size_t end() const { return first_index() + index_count; }
  };

  bool AreValues(const SegmentResults& results, const Operator& op) const;
  bool AreIndices(const SegmentResults& results, std::size_t position) const;
  bool AreFailures(const SegmentResults& results) const;

  const SegmentCut& cut_;
  std::vector<Operator> operators_;
};

}  // namespace warpfold
