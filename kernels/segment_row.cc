// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/segment_row.h"

#include <optional>

#include "kernels/segment_out.h"

namespace warpfold::kernels {

SegmentRow RowOfSegment(const SegmentLayout& layout, const PartialState& state) {
  SegmentRow row;
  row.values.reserve(layout.columns().size());
  std::optional<absl::StatusOr<OperatorValue>> value;
  for (std::size_t i = 0; i < layout.columns().size(); ++i) {
    const SegmentColumn& column = layout.columns()[i];
    if (i == layout.FirstColumn(column.op)) {
      value = state.Finish(column.op);
      if (!value->ok()) {
        const bool overflow = absl::IsOutOfRange(value->status());
        row.errors.push_back({0, column.op, overflow ? Outcome::Error::kOverflow : Outcome::Error::kEmpty});
      }
    }
    const bool has_value = value->ok();
    switch (column.what) {
      case SegmentColumn::What::kValue:
        row.values.push_back(has_value ? ColumnBits((*value)->entries[column.field]) : 0);
        break;
      case SegmentColumn::What::kIndex:
        row.values.push_back(has_value ? (*value)->index.value_or(Outcome::kNoIndex) : Outcome::kNoIndex);
        break;
      case SegmentColumn::What::kEndIndex:
        row.values.push_back(has_value ? (*value)->end_index.value_or(Outcome::kNoIndex) : Outcome::kNoIndex);
        break;
    }
  }
  return row;
}

}  // namespace warpfold::kernels
